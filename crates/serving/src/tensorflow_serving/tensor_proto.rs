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
    if tensor
        .tensor_shape
        .as_ref()
        .is_some_and(|shape| shape.unknown_rank)
    {
        let message = "its shape must be known, given unknown_rank";
        return Err(refuse(message.to_owned()));
    }
    let own = field_of(tensor.dtype());
    let given = given_fields(tensor);
    if let Some(other) = given.iter().find(|name| ![own, CONTENT].contains(*name)) {
        let dtype = tensor.dtype().as_str_name();
        let message = format!("values of {dtype} must be in {own} or {CONTENT}, given {other}");
        return Err(refuse(message));
    }
    if given.len() > 1 {
        let message = format!("its values must be in {own} or in {CONTENT}, given both");
        return Err(refuse(message));
    }
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

/// Field of the values of any type as bytes.
const CONTENT: &str = "tensor_content";

/// Returns the name of the field that has the values of a type, one by one.
fn field_of(dtype: DataType) -> &'static str {
    match dtype {
        DataType::DtString => "string_val",
        DataType::DtBool => "bool_val",
        DataType::DtFloat => "float_val",
        DataType::DtDouble => "double_val",
        DataType::DtInt64 => "int64_val",
        DataType::DtUint32 => "uint32_val",
        DataType::DtUint64 => "uint64_val",
        _ => "int_val",
    }
}

/// Returns the names of the fields that have values.
fn given_fields(tensor: &TensorProto) -> Vec<&'static str> {
    let fields = [
        (CONTENT, tensor.tensor_content.is_empty()),
        ("string_val", tensor.string_val.is_empty()),
        ("bool_val", tensor.bool_val.is_empty()),
        ("float_val", tensor.float_val.is_empty()),
        ("double_val", tensor.double_val.is_empty()),
        ("int_val", tensor.int_val.is_empty()),
        ("int64_val", tensor.int64_val.is_empty()),
        ("uint32_val", tensor.uint32_val.is_empty()),
        ("uint64_val", tensor.uint64_val.is_empty()),
    ];
    let given = fields.into_iter().filter(|(_, is_empty)| !is_empty);
    given.map(|(name, _)| name).collect()
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

    #[test]
    fn values_in_another_field_than_that_of_the_type_are_refused() {
        let columns = columns(&[("n", FieldKind::FLOAT)]);
        let good = || TensorProto {
            dtype: DataType::DtFloat.into(),
            tensor_shape: Some(shape(&[1])),
            float_val: vec![1.0],
            ..TensorProto::default()
        };
        let content = 2.0_f32.to_le_bytes().to_vec();
        let others = [
            TensorProto {
                double_val: vec![2.0],
                ..good()
            },
            TensorProto {
                string_val: vec![b"2".to_vec()],
                ..good()
            },
            TensorProto {
                int_val: vec![2],
                ..good()
            },
            TensorProto {
                int64_val: vec![2],
                ..good()
            },
            TensorProto {
                bool_val: vec![true],
                ..good()
            },
            TensorProto {
                uint32_val: vec![2],
                ..good()
            },
            TensorProto {
                uint64_val: vec![2],
                ..good()
            },
            TensorProto {
                tensor_content: content,
                ..good()
            },
            TensorProto {
                tensor_shape: Some(TensorShapeProto {
                    unknown_rank: true,
                    ..shape(&[1])
                }),
                ..good()
            },
        ];
        let mut inputs = Inputs::new(&columns, BOUNDS);
        read(&mut inputs, "n", &good()).expect("values in the field of the type");
        for tensor in others {
            let mut inputs = Inputs::new(&columns, BOUNDS);
            let refused = read(&mut inputs, "n", &tensor).expect_err("another field");
            let told = refused.to_string();
            assert!(told.contains("must be"), "{told}: {tensor:?}");
        }
    }
}
