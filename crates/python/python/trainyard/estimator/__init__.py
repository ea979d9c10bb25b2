"""Estimators with TensorFlow's names, arguments and defaults (`tf.estimator` of TensorFlow 2).

An estimator becomes a job, which runs through the same code as the command `trainyard`. In a script of Estimator,
`import trainyard.estimator as tf_estimator` takes the place of `tf.estimator`, and `trainyard.data` that of the input.
"""

from trainyard import metrics
from trainyard.estimator import feature_column, optimizers
from trainyard.estimator.custom import Estimator
from trainyard.estimator.estimator_spec import EstimatorSpec, ModeKeys
from trainyard.estimator.exporter import BestExporter, FinalExporter, LatestExporter
from trainyard.estimator.head import (
    BinaryClassHead,
    LogisticRegressionHead,
    MultiClassHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
)
from trainyard.estimator.hooks import (
    CheckpointSaverListener,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
)
from trainyard.estimator.premade import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
)
from trainyard.estimator.run_config import RunConfig
from trainyard.estimator.spec import EvalSpec, TrainSpec
from trainyard.estimator.training import train_and_evaluate

__all__ = [
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "BestExporter",
    "BinaryClassHead",
    "CheckpointSaverListener",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LogisticRegressionHead",
    "ModeKeys",
    "MultiClassHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
    "RunConfig",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StopAtStepHook",
    "TrainSpec",
    "feature_column",
    "metrics",
    "optimizers",
    "train_and_evaluate",
]
