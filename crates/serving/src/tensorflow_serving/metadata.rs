//! Signatures of a model, as the metadata of TensorFlow Serving has them.

use trainyard_tensorflow_formats::generated::tensor_info::Encoding;
use trainyard_tensorflow_formats::generated::{DataType, SignatureDef, TensorInfo};

use crate::results::{has_classes, has_numbers};
use crate::signature::{Method, Signature, Tensor};
use crate::tensorflow_serving::generated::SignatureDefMap;
use crate::tensorflow_serving::tensor_proto::{dtype, shape};

/// Returns the signatures of a model, by name.
pub(super) fn signatures(signature: &Signature) -> SignatureDefMap {
    let mut all = SignatureDefMap::default();
    let predict = SignatureDef {
        inputs: signature.inputs.iter().map(column).collect(),
        outputs: signature.outputs.iter().map(column).collect(),
        method_name: Method::Predict.name().to_owned(),
    };
    let named = |name: &str, definition: &SignatureDef| (name.to_owned(), definition.clone());
    let definitions = &mut all.signature_def;
    definitions.extend(["serving_default", "predict"].map(|name| named(name, &predict)));
    if has_classes(signature) {
        let outputs = [
            tensor("classes", DataType::DtString, &[-1, -1]),
            tensor("scores", DataType::DtFloat, &[-1, -1]),
        ];
        let definition = of_examples(Method::Classify, &outputs);
        definitions.insert("classification".to_owned(), definition);
    }
    if has_numbers(signature) {
        let outputs = [tensor("outputs", DataType::DtFloat, &[-1, 1])];
        let definition = of_examples(Method::Regress, &outputs);
        definitions.insert("regression".to_owned(), definition);
    }
    all
}

fn of_examples(method: Method, outputs: &[(String, TensorInfo)]) -> SignatureDef {
    let inputs = [tensor("inputs", DataType::DtString, &[-1])];
    SignatureDef {
        inputs: inputs.into_iter().collect(),
        outputs: outputs.iter().cloned().collect(),
        method_name: method.name().to_owned(),
    }
}

fn column(column: &Tensor) -> (String, TensorInfo) {
    let width = column.width.map_or(-1, |width| width as i64);
    tensor(&column.name, dtype(column.kind), &[-1, width])
}

fn tensor(name: &str, dtype: DataType, sizes: &[i64]) -> (String, TensorInfo) {
    let described = TensorInfo {
        encoding: Some(Encoding::Name(name.to_owned())),
        dtype: dtype.into(),
        tensor_shape: Some(shape(sizes)),
    };
    (name.to_owned(), described)
}
