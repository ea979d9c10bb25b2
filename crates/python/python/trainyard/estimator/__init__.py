"""Estimators with TensorFlow's names, arguments and defaults (`tf.estimator` of TensorFlow 2).

An estimator becomes a job, which runs through the same code as the command `trainyard`. In a script of Estimator,
`import trainyard.estimator as tf_estimator` takes the place of `tf.estimator`, and `trainyard.data` that of the input.
"""

from trainyard.estimator import feature_column, optimizers
from trainyard.estimator.exporter import BestExporter, FinalExporter, LatestExporter
from trainyard.estimator.premade import (
    BaselineClassifier,
    BaselineRegressor,
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    Estimator,
    LinearClassifier,
    LinearRegressor,
)
from trainyard.estimator.run_config import RunConfig
from trainyard.estimator.spec import EvalSpec, TrainSpec
from trainyard.estimator.training import train_and_evaluate

__all__ = [
    "BaselineClassifier",
    "BaselineRegressor",
    "BestExporter",
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EvalSpec",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearRegressor",
    "RunConfig",
    "TrainSpec",
    "feature_column",
    "optimizers",
    "train_and_evaluate",
]
