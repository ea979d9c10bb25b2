//! Encoded models: one file, or a second file with the large tables if one cannot hold them.

use prost::Message as _;

use crate::Error;
use crate::generated::tensor_proto::DataLocation;
use crate::generated::{ModelProto, StringStringEntryProto, TensorProto};

/// Least size of a table that is moved to the second file, in bytes.
const TABLE_BYTES_MIN: usize = 1024;

/// Content of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// The encoded model.
    pub bytes: Vec<u8>,
    /// The contents of [`File::DATA`], end to end; empty if the model holds everything.
    pub data: Vec<Vec<u8>>,
}

impl File {
    /// Name of the second file, which must lie beside the first.
    pub const DATA: &str = "model.onnx.data";
    /// Most bytes of the first file: protocol buffers have signed 32-bit lengths.
    pub(crate) const BYTES_MAX: usize = i32::MAX as usize;

    /// Encodes a model in at most `most` bytes. If that is too few, its tables move to the second file.
    pub(crate) fn of(mut model: ModelProto, most: usize) -> Result<Self, Error> {
        let mut data = Vec::new();
        if model.encoded_len() > most {
            let tensors = model
                .graph
                .iter_mut()
                .flat_map(|graph| &mut graph.initializer);
            let mut offset = 0;
            for tensor in tensors.filter(|tensor| tensor.raw_data.len() >= TABLE_BYTES_MIN) {
                let table = std::mem::take(&mut tensor.raw_data);
                point(tensor, offset, table.len());
                offset += table.len();
                data.push(table);
            }
        }
        match model.encoded_len() {
            needed if needed > most => Err(Error::TooLarge { needed, most }),
            _ => Ok(Self {
                bytes: model.encode_to_vec(),
                data,
            }),
        }
    }
}

/// Sets the location of a tensor in the second file.
fn point(tensor: &mut TensorProto, offset: usize, length: usize) {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: key.to_owned(),
        value,
    };
    tensor.set_data_location(DataLocation::External);
    tensor.external_data = vec![
        entry("location", File::DATA.to_owned()),
        entry("offset", offset.to_string()),
        entry("length", length.to_string()),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphProto, Tensor};

    fn model() -> ModelProto {
        let tensor = |name: &str, count: usize| TensorProto {
            dims: vec![count as i64],
            data_type: Tensor::Float.number(),
            name: name.to_owned(),
            raw_data: vec![7; count * 4],
            ..TensorProto::default()
        };
        let initializer = vec![
            tensor("first", 300),
            tensor("small", 2),
            tensor("second", 400),
        ];
        ModelProto {
            graph: Some(GraphProto {
                initializer,
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        }
    }

    #[test]
    fn a_model_that_fits_is_one_file() {
        let file = File::of(model(), File::BYTES_MAX).unwrap();
        assert!(
            file.data.is_empty() && ModelProto::decode(file.bytes.as_slice()).unwrap() == model()
        );
    }

    #[test]
    fn tables_that_do_not_fit_lie_end_to_end_in_the_second_file() {
        let file = File::of(model(), 1000).unwrap();
        assert_eq!(
            file.data.iter().map(Vec::len).collect::<Vec<_>>(),
            [1200, 1600]
        );
        let graph = ModelProto::decode(file.bytes.as_slice())
            .unwrap()
            .graph
            .unwrap();
        let places: Vec<Vec<&str>> = graph
            .initializer
            .iter()
            .map(|tensor| {
                tensor
                    .external_data
                    .iter()
                    .map(|entry| entry.value.as_str())
                    .collect()
            })
            .collect();
        let expected: [&[&str]; 3] = [
            &[File::DATA, "0", "1200"],
            &[],
            &[File::DATA, "1200", "1600"],
        ];
        assert_eq!(places, expected);
        assert_eq!(graph.initializer[1].raw_data.len(), 8);
    }

    #[test]
    fn a_model_that_does_not_fit_even_so_is_refused() {
        let refused = File::of(model(), 10).unwrap_err();
        assert!(
            matches!(refused, Error::TooLarge { most: 10, .. }),
            "{refused}"
        );
    }
}
