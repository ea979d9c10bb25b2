"""Asks a server of predictions through the client of TensorFlow Serving (tensorflow-serving-api), and compares the answers.

Usage: tensorflow_clients.py GRPC_ADDRESS MODEL VERSION < JSON
The JSON has `columns`, values by name, and `logistic`, the expected floats.
"""

import json
import sys

import grpc
import numpy
import tensorflow
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

TIMEOUT_SECS = 60


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


def refused(what, call, request, code, word):
    try:
        call(request, timeout=TIMEOUT_SECS)
    except grpc.RpcError as error:
        check(what, error.code(), code)
        if word not in error.details():
            sys.exit(f"{what}: {error.details()}")
        return
    sys.exit(f"{what} was not refused")


def feature(value):
    if isinstance(value, str):
        texts = tensorflow.train.BytesList(value=[value.encode()])
        return tensorflow.train.Feature(bytes_list=texts)
    return tensorflow.train.Feature(float_list=tensorflow.train.FloatList(value=[value]))


def examples(columns, left_out=()):
    rows = range(len(next(iter(columns.values()))))
    for row in rows:
        features = {
            name: feature(values[row])
            for name, values in columns.items()
            if name not in left_out
        }
        # A record of the training data has its label, which no request needs.
        features["label"] = feature(1.0)
        features = tensorflow.train.Features(feature=features)
        yield tensorflow.train.Example(features=features)


def main():
    address, model, version = sys.argv[1:]
    case = json.load(sys.stdin)
    columns = case["columns"]
    expected = numpy.array(case["logistic"], dtype=numpy.float32).tobytes()
    compared = 0

    def same(what, values):
        nonlocal compared
        check(what, numpy.array(values, dtype=numpy.float32).tobytes(), expected)
        compared += 1

    channel = grpc.insecure_channel(address)
    predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    models = model_service_pb2_grpc.ModelServiceStub(channel)

    def predict(names=columns, **spec):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = spec.pop("name", model)
        for key, value in spec.items():
            setattr(request.model_spec, key, value)
        for name in names:
            values = columns[name]
            dtype = tensorflow.string if isinstance(values[0], str) else tensorflow.float32
            tensor = tensorflow.make_tensor_proto(values, dtype=dtype, shape=[len(values), 1])
            request.inputs[name].CopyFrom(tensor)
        return request

    answer = predictions.Predict(predict(), timeout=TIMEOUT_SECS)
    same("predict", tensorflow.make_ndarray(answer.outputs["logistic"])[:, 0])
    same("predict", answer.outputs["logistic"].float_val)
    check("version", answer.model_spec.version.value, int(version))
    check("signature", answer.model_spec.signature_name, "serving_default")
    kinds = {name: tensorflow.make_ndarray(tensor).dtype.kind for name, tensor in answer.outputs.items()}
    check("types", (kinds["class_ids"], kinds["probabilities"], kinds["classes"]), ("i", "f", "O"))

    request = predict(signature_name="predict")
    request.model_spec.version.value = int(version)
    request.output_filter.append("logistic")
    answer = predictions.Predict(request, timeout=TIMEOUT_SECS)
    check("filter", list(answer.outputs), ["logistic"])
    same("filter", answer.outputs["logistic"].float_val)

    serialized = [example.SerializeToString() for example in examples(columns)]
    request = predict(names=[])
    request.inputs["examples"].CopyFrom(tensorflow.make_tensor_proto(serialized))
    answer = predictions.Predict(request, timeout=TIMEOUT_SECS)
    same("examples", answer.outputs["logistic"].float_val)

    # The tensor of a model of one value, which TensorFlow writes once.
    constant = predict()
    rows = len(columns["z"])
    constant.inputs["z"].CopyFrom(tensorflow.make_tensor_proto([[columns["z"][0]]] * rows, tensorflow.float32))
    again = predict()
    again.inputs["z"].CopyFrom(constant.inputs["z"])
    again.inputs["z"].ClearField("tensor_content")
    again.inputs["z"].float_val[:] = [columns["z"][0]]
    answers = [predictions.Predict(each, timeout=TIMEOUT_SECS).outputs for each in [constant, again]]
    check("repeated", answers[0]["logistic"], answers[1]["logistic"])

    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.name = model
    classify.input.example_list.examples.extend(examples(columns))
    answer = predictions.Classify(classify, timeout=TIMEOUT_SECS)
    classes = [row.classes for row in answer.result.classifications]
    check("classes", [[one.label for one in row] for row in classes], [["0", "1"]] * rows)
    same("classify", [row[1].score for row in classes])

    regress = regression_pb2.RegressionRequest()
    regress.model_spec.name = model
    regress.model_spec.signature_name = "regression"
    regress.input.example_list.examples.extend(examples(columns))
    answer = predictions.Regress(regress, timeout=TIMEOUT_SECS)
    same("regress", [row.value for row in answer.result.regressions])

    # What all examples share is their context.
    shared = {**columns, "z": [columns["z"][0]] * rows}
    whole = regression_pb2.RegressionRequest(model_spec=regress.model_spec)
    whole.input.example_list.examples.extend(examples(shared))
    split = regression_pb2.RegressionRequest(model_spec=regress.model_spec)
    split.input.example_list_with_context.examples.extend(examples(columns, left_out=["z"]))
    split.input.example_list_with_context.context.features.feature["z"].CopyFrom(feature(columns["z"][0]))
    results = [predictions.Regress(each, timeout=TIMEOUT_SECS).result for each in [whole, split]]
    check("context", results[0], results[1])

    both = inference_pb2.MultiInferenceRequest()
    for method in ["classify", "regress"]:
        task = both.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name = model
    both.input.example_list.examples.extend(examples(columns))
    results = predictions.MultiInference(both, timeout=TIMEOUT_SECS).results
    same("both", [row.classes[1].score for row in results[0].classification_result.classifications])
    same("both", [row.value for row in results[1].regression_result.regressions])

    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata.model_spec.name = model
    answer = predictions.GetModelMetadata(metadata, timeout=TIMEOUT_SECS)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    answer.metadata["signature_def"].Unpack(signatures)
    names = ["classification", "predict", "regression", "serving_default"]
    check("signatures", sorted(signatures.signature_def), names)
    check("columns", sorted(signatures.signature_def["predict"].inputs), sorted(columns))

    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = model
    answer = models.GetModelStatus(status, timeout=TIMEOUT_SECS)
    states = [(one.version, one.state) for one in answer.model_version_status]
    check("status", states, [(int(version), get_model_status_pb2.ModelVersionStatus.AVAILABLE)])

    code = grpc.StatusCode
    call = predictions.Predict
    refused("model", call, predict(name="other"), code.NOT_FOUND, "`other` is not served")
    request = predict()
    request.model_spec.version.value = 3
    refused("version", call, request, code.NOT_FOUND, "no version 3")
    refused("label", call, predict(version_label="stable"), code.NOT_FOUND, "no label `stable`")
    request = predict(signature_name="other")
    refused("signature", call, request, code.FAILED_PRECONDITION, "no signature `other`")
    refused("column", call, predict(names=["x"]), code.INVALID_ARGUMENT, "is missing")
    refused("no model", call, predict_pb2.PredictRequest(), code.INVALID_ARGUMENT, "model_spec")
    request = predict()
    request.output_filter.append("logits ")
    refused("output", call, request, code.INVALID_ARGUMENT, "did you mean `logits`?")
    request = predict()
    request.inputs["x"].CopyFrom(tensorflow.make_tensor_proto(["a"] * rows, shape=[rows, 1]))
    refused("type", call, request, code.INVALID_ARGUMENT, "expected a number")
    request = predict()
    request.inputs["x"].tensor_shape.dim[0].size = -1
    refused("shape", call, request, code.INVALID_ARGUMENT, "0 or more, given -1")
    request = predict(names=[])
    request.inputs["examples"].CopyFrom(tensorflow.make_tensor_proto([b"\xff\xff"]))
    refused("example", call, request, code.INVALID_ARGUMENT, "row 1 is no tf.train.Example")
    empty = classification_pb2.ClassificationRequest(model_spec=classify.model_spec)
    refused("empty", predictions.Classify, empty, code.INVALID_ARGUMENT, "at least one example")
    both.tasks[0].method_name = "tensorflow/serving/explain"
    refused("method", predictions.MultiInference, both, code.UNIMPLEMENTED, "method_name must be")
    metadata.metadata_field[:] = ["graph"]
    refused("field", predictions.GetModelMetadata, metadata, code.INVALID_ARGUMENT, "signature_def")
    status.model_spec.name = "other"
    refused("status", models.GetModelStatus, status, code.NOT_FOUND, "`other` is not served")
    print(f"compared {compared}")


main()
