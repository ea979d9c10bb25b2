"""An exported graph as a model of MLServer: onnxruntime behind the Open Inference Protocol, as its documentation has it."""

import numpy
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from mlserver.utils import get_model_uri

OUTPUTS = ["logistic", "probabilities"]
DTYPES = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64}


class OnnxGraph(MLModel):
    """One session for each process of MLServer."""

    async def load(self):
        self.session = onnxruntime.InferenceSession(await get_model_uri(self._settings))
        self.dtypes = {one.name: DTYPES[one.type] for one in self.session.get_inputs()}
        return True

    async def predict(self, request):
        tensors = {
            one.name: NumpyCodec.decode_input(one).astype(self.dtypes[one.name], copy=False)
            for one in request.inputs
        }
        values = self.session.run(OUTPUTS, tensors)
        outputs = [NumpyCodec.encode_output(*named) for named in zip(OUTPUTS, values)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
