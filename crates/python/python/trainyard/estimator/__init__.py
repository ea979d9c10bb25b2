"""Estimators with TensorFlow's names, arguments and defaults (`tf.estimator` of TensorFlow 2).

An estimator becomes a job, which runs through the same code as the command `trainyard`. In a script of Estimator,
`import trainyard.estimator as tf_estimator` takes the place of `tf.estimator`, and `trainyard.data` that of the input.
"""

from trainyard.estimator import feature_column, optimizers
from trainyard.estimator.exporter import BestExporter, FinalExporter, LatestExporter
from trainyard.estimator.head import (
    BinaryClassHead,
    LogisticRegressionHead,
    MultiClassHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
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
    Estimator,
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
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EvalSpec",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
    "RunConfig",
    "TrainSpec",
    "feature_column",
    "optimizers",
    "train_and_evaluate",
]
