//! Requests for predictions: bodies of every protocol, to a model with columns of each kind.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut as _, Bytes, BytesMut};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tokio::runtime::Builder;
use trainyard_checkpoint::Origin;
use trainyard_model::{AnyModel, PREMADE, inline_options};
use trainyard_predictor::Predictor;
use trainyard_run_config::Job;
use trainyard_serving::DetachedModel;

use crate::scratch::folder;

/// Protocol that reads a body.
const TARGETS: [&str; 12] = [
    "/v1/models/model:predict",
    "/v1/models/model:classify",
    "/v1/models/model:regress",
    "/v2/models/model/infer",
    "/v2/models/model/infer with bytes",
    "/inference.GRPCInferenceService/ModelInfer",
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.PredictionService/Classify",
    "/tensorflow.serving.PredictionService/Regress",
    "/tensorflow.serving.PredictionService/MultiInference",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
    "/tensorflow.serving.ModelService/GetModelStatus",
];

/// The first target of gRPC.
const GRPC: usize = 5;

/// A job with numbers, whole numbers, texts and lists.
const JOB: &str = r#"
model_dir = "model"
[input]
label = { column = "y" }
[input.train]
files = ["train.csv"]
batch_size = 1
[[feature]]
column = "x"
kind = "numeric"
[[feature]]
column = "word"
kind = "hashed"
buckets = 10
wide = true
deep = { embedding = 2 }
[[feature]]
column = "tags"
kind = "hashed"
buckets = 10
separator = "|"
wide = true
[[feature]]
column = "kind"
kind = "vocabulary"
values = ["a", "b"]
wide = true
[[feature]]
column = "hour"
kind = "identity"
buckets = 24
default = 0
wide = true
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [2]
[train]
max_steps = 1
"#;

/// Answers the rest of the bytes as a body, at the target that the first one chooses.
pub fn run(data: &[u8]) {
    let Some((target, rest)) = data.split_first() else {
        return;
    };
    let target = usize::from(*target) % TARGETS.len();
    let path = TARGETS[target];
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let model = model();
    if target >= GRPC {
        let mut frame = BytesMut::with_capacity(rest.len() + 5);
        frame.put_u8(0);
        frame.put_u32(rest.len() as u32);
        frame.put_slice(rest);
        let status = runtime.block_on(model.grpc(path, frame.freeze()));
        drop(status.expect("a path"));
        return;
    }
    let (path, with_bytes) = match path.split_once(' ') {
        Some((path, _)) => (path, rest.split_first_chunk::<2>()),
        None => (path, None),
    };
    let answered = match with_bytes {
        Some((length, rest)) => {
            let length = Some(usize::from(u16::from_le_bytes(*length)));
            runtime.block_on(model.http(path, length, &Bytes::copy_from_slice(rest)))
        }
        None => runtime.block_on(model.http(path, None, &Bytes::copy_from_slice(rest))),
    };
    if let Err(error) = answered {
        assert!(
            !matches!(
                error,
                trainyard_serving::Error::Fault(_) | trainyard_serving::Error::Unavailable(_)
            ),
            "a request cannot be at fault for this: {error}"
        );
    }
}

/// The model, which all inputs share: it does not change.
fn model() -> &'static DetachedModel {
    static MODEL: OnceLock<DetachedModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let job = Job::parse(Path::new("job.toml"), JOB, &[]).expect("a job");
        let model = Arc::<AnyModel>::from(PREMADE(&job).expect("a model"));
        let folder = folder();
        let path = folder.path().join("zeros.safetensors");
        let zeros: HashMap<String, (Vec<usize>, Vec<u8>)> = model
            .variables()
            .iter()
            .map(|spec| {
                (
                    spec.name.clone(),
                    (spec.shape.clone(), vec![0; 4 * spec.len()]),
                )
            })
            .collect();
        let views = zeros.iter().map(|(name, (shape, bytes))| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            (name, view.expect("a tensor"))
        });
        safetensors::serialize_to_file(views, None, &path).expect("there is room");
        let origin = Origin::open(&path, &mut |_| {}).expect("values");
        let predictor = Predictor::open(&origin, model).expect("a predictor");
        let options = inline_options(&job, None);
        DetachedModel::new(predictor, &options).expect("it predicts")
    })
}
