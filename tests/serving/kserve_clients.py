"""Asks a server of predictions through KServe's clients, over HTTP and gRPC, and compares the answers.

Usage: kserve_clients.py HTTP_ADDRESS GRPC_ADDRESS MODEL < JSON
The JSON has `columns`, values by name, and `logistic`, the expected floats.
"""

import asyncio
import json
import sys

import numpy
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig


def request(model, columns, binary):
    inputs = []
    for name, values in columns.items():
        if isinstance(values[0], str):
            array = numpy.array([[value.encode()] for value in values], dtype=object)
            datatype = "BYTES"
        else:
            array = numpy.array([[value] for value in values], dtype=numpy.float32)
            datatype = "FP32"
        tensor = InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, binary_data=binary)
        inputs.append(tensor)
    parameters = {"binary_data_output": True} if binary else {}
    return InferRequest(model_name=model, infer_inputs=inputs, request_id="7", parameters=parameters)


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")


def logistic(what, answer):
    found = [output for output in answer.outputs if output.name == "logistic"]
    check(what, len(found), 1)
    check(what, answer.id, "7")
    return found[0].as_numpy().astype(numpy.float32).tobytes()


async def refused(what, call, word):
    try:
        await call
    except Exception as error:
        if word not in str(error):
            sys.exit(f"{what}: {error}")
        return
    sys.exit(f"{what} was not refused")


async def main():
    http_address, grpc_address, model = sys.argv[1:]
    case = json.load(sys.stdin)
    columns = case["columns"]
    expected = numpy.array(case["logistic"], dtype=numpy.float32).tobytes()
    base = f"http://{http_address}"
    compared = 0
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    check("live", await rest.is_server_live(base), True)
    check("ready", await rest.is_server_ready(base), True)
    check("model", await rest.is_model_ready(base, model), True)
    check("model", await rest.is_model_ready(base, "other"), False)
    for binary in [True, False]:
        answer = await rest.infer(base, request(model, columns, binary), model_name=model)
        check(f"http, binary {binary}", logistic("http", answer), expected)
        compared += 1
    await refused("http", rest.infer(base, request("other", columns, True), model_name="other"), "is not served")
    first = InferenceRESTClient(RESTConfig(protocol="v1"))
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    answer = await first.infer(base, {"instances": rows}, model_name=model)
    found = numpy.array([row["logistic"] for row in answer["predictions"]], dtype=numpy.float32)
    check("v1", found.tobytes(), expected)
    compared += 1
    async with InferenceGRPCClient(grpc_address) as grpc:
        check("live", await grpc.is_server_live(), True)
        check("ready", await grpc.is_server_ready(), True)
        check("model", await grpc.is_model_ready(model), True)
        for binary in [True, False]:
            answer = await grpc.infer(request(model, columns, binary))
            check(f"grpc, binary {binary}", logistic("grpc", answer), expected)
            compared += 1
        await refused("grpc", grpc.infer(request("other", columns, True)), "is not served")
    print(f"compared {compared}")


asyncio.run(main())
