"""Asks a server of predictions through the clients of Triton, over HTTP and gRPC, and compares the answers.

Usage: clients.py HTTP_ADDRESS GRPC_ADDRESS MODEL < JSON
The JSON has `columns`, values by name, and `logistic`, the expected floats.
"""

import json
import sys

import numpy
import tritonclient.grpc
import tritonclient.http


def inputs(module, columns, **binary):
    for name, values in columns.items():
        if isinstance(values[0], str):
            array = numpy.array([[value.encode()] for value in values], dtype=object)
            datatype = "BYTES"
        else:
            array = numpy.array([[value] for value in values], dtype=numpy.float32)
            datatype = "FP32"
        tensor = module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, **binary)
        yield tensor


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


def refused(what, call, word):
    try:
        call()
    except Exception as error:
        if word not in str(error):
            sys.exit(f"{what}: {error}")
        return
    sys.exit(f"{what} was not refused")


def main():
    http_address, grpc_address, model = sys.argv[1:]
    case = json.load(sys.stdin)
    columns = case["columns"]
    expected = numpy.array(case["logistic"], dtype=numpy.float32).tobytes()
    compared = 0
    http = tritonclient.http.InferenceServerClient(http_address)
    grpc = tritonclient.grpc.InferenceServerClient(grpc_address)
    for name, client in [("http", http), ("grpc", grpc)]:
        check(name, client.is_server_live(), True)
        check(name, client.is_server_ready(), True)
        check(name, client.is_model_ready(model), True)
    described = http.get_model_metadata(model)
    check("metadata", sorted(column["name"] for column in described["inputs"]), sorted(columns))
    described = grpc.get_model_metadata(model)
    check("metadata", sorted(column.name for column in described.inputs), sorted(columns))
    check("server", grpc.get_server_metadata().name, http.get_server_metadata()["name"])
    for binary in [True, False]:
        answer = http.infer(
            model,
            list(inputs(tritonclient.http, columns, binary_data=binary)),
            outputs=[tritonclient.http.InferRequestedOutput("logistic", binary_data=binary)],
        )
        check("http", answer.as_numpy("logistic").tobytes(), expected)
        compared += 1
    answer = grpc.infer(model, list(inputs(tritonclient.grpc, columns)), request_id="7")
    check("grpc", answer.as_numpy("logistic").tobytes(), expected)
    check("grpc", answer.get_response().id, "7")
    check("grpc", answer.as_numpy("classes").shape, (len(case["logistic"]), 1))
    compared += 1
    for name, client, module in [
        ("http", http, tritonclient.http),
        ("grpc", grpc, tritonclient.grpc),
    ]:
        tensors = list(inputs(module, columns))
        refused(name, lambda: client.infer("other", tensors), "`other` is not served")
        refused(name, lambda: client.infer(model, tensors[:1]), "is missing")
        refused(name, lambda: client.infer(model, tensors, model_version="3"), "no version 3")
    print(f"compared {compared}")


main()
