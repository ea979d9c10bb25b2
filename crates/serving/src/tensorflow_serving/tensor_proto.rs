//! TensorFlow's tensors as columns of a request and as keys of an answer.

use trainyard_input::Given;
use trainyard_model::Prediction;
use trainyard_tensorflow_formats::generated::tensor_shape_proto::Dim;
use trainyard_tensorflow_formats::generated::{DataType, TensorProto, TensorShapeProto};

use crate::Error;
use crate::batching::Predictions;
use crate::signature::{Tensor, ValueKind};
use crate::tensors::Inputs;

/// Most values that a tensor may have by repeating the last value that it gives.
const REPEATED_MAX: usize = 1 << 20;

/// Adds the tensor of a column to the inputs of a request.
///
/// # Errors
/// The model has no such column, or it cannot hold the values.
pub(super) fn read(inputs: &mut Inputs<'_>, name: &str, tensor: &TensorProto) -> Result<(), Error> {
    let refuse = |message: String| Error::Request(format!("input `{name}`: {message}"));
    let dims = tensor.tensor_shape.iter().flat_map(|shape| &shape.dim);
    let sizes = dims.map(|dim| {
        usize::try_from(dim.size).map_err(|_| {
            let size = dim.size;
            refuse(format!(
                "each size of its shape must be 0 or more, given {size}"
            ))
        })
    });
    let shape = sizes.collect::<Result<Vec<usize>, Error>>()?;
    let mut filler = inputs.input(name, &shape)?;
    let datatype = datatype(tensor.dtype()).ok_or_else(|| {
        let given = tensor.dtype().as_str_name();
        refuse(format!(
            "its dtype must be DT_STRING, DT_BOOL, DT_FLOAT, DT_DOUBLE or a type of whole numbers, given {given}"
        ))
    })?;
    if !tensor.tensor_content.is_empty() {
        if tensor.dtype() == DataType::DtString {
            let message = "texts must be in string_val, given tensor_content";
            return Err(refuse(message.to_owned()));
        }
        return filler.fill_from_bytes(&tensor.tensor_content, datatype);
    }
    let mut values = values(tensor)
        .map_err(|number| refuse(format!("{number} is beyond the numbers of DT_INT64")))?;
    // TensorFlow leaves out the last values of a tensor that are equal.
    let count = filler.count();
    if let Some(last) = values.last().copied()
        && count <= REPEATED_MAX
        && values.len() < count
    {
        values.resize(count, last);
    }
    filler.fill_from_values(values.into_iter(), datatype)
}

/// Returns the name of a type in the Open Inference Protocol.
fn datatype(dtype: DataType) -> Option<&'static str> {
    Some(match dtype {
        DataType::DtString => "BYTES",
        DataType::DtBool => "BOOL",
        DataType::DtFloat => "FP32",
        DataType::DtDouble => "FP64",
        DataType::DtInt8 => "INT8",
        DataType::DtInt16 => "INT16",
        DataType::DtInt32 => "INT32",
        DataType::DtInt64 => "INT64",
        DataType::DtUint8 => "UINT8",
        DataType::DtUint16 => "UINT16",
        DataType::DtUint32 => "UINT32",
        DataType::DtUint64 => "UINT64",
        DataType::DtInvalid | DataType::DtBfloat16 | DataType::DtHalf | DataType::DtResource => {
            return None;
        }
    })
}

/// Returns the values in the field of the tensor's type, or the first number that 64 bits with a sign cannot hold.
fn values(tensor: &TensorProto) -> Result<Vec<Given<'_>>, u64> {
    Ok(match tensor.dtype() {
        DataType::DtString => {
            let values = tensor.string_val.iter();
            values.map(|text| Given::Text(text)).collect()
        }
        DataType::DtBool => {
            let values = tensor.bool_val.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        DataType::DtFloat => {
            let values = tensor.float_val.iter();
            values.map(|number| Given::Float(*number)).collect()
        }
        DataType::DtDouble => {
            let values = tensor.double_val.iter();
            values.map(|number| Given::Double(*number)).collect()
        }
        DataType::DtInt64 => {
            let values = tensor.int64_val.iter();
            values.map(|number| Given::Int(*number)).collect()
        }
        DataType::DtUint32 => {
            let values = tensor.uint32_val.iter();
            values.map(|number| Given::Int((*number).into())).collect()
        }
        DataType::DtUint64 => {
            let values = tensor.uint64_val.iter();
            let value = |number: &u64| i64::try_from(*number).map(Given::Int).map_err(|_| *number);
            values.map(value).collect::<Result<_, u64>>()?
        }
        _ => {
            let values = tensor.int_val.iter();
            values.map(|number| Given::Int((*number).into())).collect()
        }
    })
}

/// Returns the type of the values of a column or a key.
pub(super) fn dtype(kind: ValueKind) -> DataType {
    match kind {
        ValueKind::Float => DataType::DtFloat,
        ValueKind::Int => DataType::DtInt64,
        ValueKind::Text => DataType::DtString,
    }
}

/// Returns a shape of these sizes.
pub(super) fn shape(sizes: &[i64]) -> TensorShapeProto {
    TensorShapeProto {
        dim: sizes.iter().map(|size| Dim { size: *size }).collect(),
        unknown_rank: false,
    }
}

/// Returns the tensor of a key, with the values of all rows.
pub(super) fn write(rows: &Predictions, key: &Tensor) -> TensorProto {
    let sizes = [rows.len() as i64, key.width.unwrap_or(1) as i64];
    let mut tensor = TensorProto {
        dtype: dtype(key.kind).into(),
        tensor_shape: Some(shape(&sizes)),
        ..TensorProto::default()
    };
    for values in rows.iter().filter_map(|row| row.get(&key.name)) {
        match values {
            Prediction::Floats(values) => tensor.float_val.extend_from_slice(values),
            Prediction::Ints(values) => tensor.int64_val.extend_from_slice(values),
            Prediction::Texts(values) => {
                let texts = values.iter().map(|text| text.clone().into_bytes());
                tensor.string_val.extend(texts);
            }
        }
    }
    tensor
}

#[cfg(test)]
mod tests {
    use trainyard_input::FieldKind;

    use super::*;
    use crate::filling::fixtures::{BOUNDS, columns};

    #[test]
    fn a_number_that_its_dtype_has_not_is_refused() {
        let columns = columns(&[("n", FieldKind::FLOAT)]);
        for (dtype, number, is_good) in [
            (DataType::DtUint8, 255, true),
            (DataType::DtUint8, 300, false),
            (DataType::DtInt8, -129, false),
            (DataType::DtInt16, 40_000, false),
            (DataType::DtUint16, -1, false),
            (DataType::DtInt32, -1, true),
        ] {
            let tensor = TensorProto {
                dtype: dtype.into(),
                tensor_shape: Some(shape(&[1])),
                int_val: vec![number],
                ..TensorProto::default()
            };
            let mut inputs = Inputs::new(&columns, BOUNDS);
            let outcome = read(&mut inputs, "n", &tensor);
            assert_eq!(outcome.is_ok(), is_good, "{dtype:?} {number}: {outcome:?}");
        }
    }
}
