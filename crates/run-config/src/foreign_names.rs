//! Names of TensorFlow and Keras that differ in job files, with the keys that replace them.

/// A name of TensorFlow or Keras, and its replacement in a job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignName {
    /// The name in TensorFlow or Keras.
    pub name: &'static str,
    /// The key in the job file, with its section: `run.seed`.
    pub key: &'static str,
    /// The value of the key, if the name stands for a value.
    pub value: Option<&'static str>,
}

/// Makes the entry of a name that has another key.
const fn key(name: &'static str, key: &'static str) -> ForeignName {
    ForeignName {
        name,
        key,
        value: None,
    }
}

/// Makes the entry of a class or function that is a value of a key.
const fn value(name: &'static str, key: &'static str, value: &'static str) -> ForeignName {
    ForeignName {
        name,
        key,
        value: Some(value),
    }
}

/// All known names. A test checks each key and value with the reader.
pub const FOREIGN_NAMES: &[ForeignName] = &[
    // tf.estimator.RunConfig, and the sessions below it.
    key("tf_random_seed", "run.seed"),
    key("random_seed", "run.seed"),
    key("seed", "run.seed"),
    key("save_checkpoints_steps", "run.save_checkpoints_steps"),
    key("save_checkpoints_secs", "run.save_checkpoints_secs"),
    key("save_summary_steps", "run.save_summary_steps"),
    key("save_summaries_steps", "run.save_summary_steps"),
    key("keep_checkpoint_max", "run.keep_checkpoint_max"),
    key("max_to_keep", "run.keep_checkpoint_max"),
    key(
        "keep_checkpoint_every_n_hours",
        "run.keep_checkpoint_every_n_hours",
    ),
    key("log_step_count_steps", "run.log_step_count_steps"),
    key(
        "intra_op_parallelism_threads",
        "run.intra_op_parallelism_threads",
    ),
    key("train_distribute", "strategy.kind"),
    key("ParameterServerStrategy", "strategy.kind"),
    key("replicas_to_aggregate", "strategy.replicas_to_aggregate"),
    // tf.estimator.TrainSpec and EvalSpec.
    key("train_steps", "train.max_steps"),
    key("max_steps", "train.max_steps"),
    key("num_steps", "train.max_steps"),
    key("eval_steps", "eval.steps"),
    key("throttle_secs", "eval.throttle_secs"),
    key("start_delay_secs", "eval.start_delay_secs"),
    key("warm_start_from", "train.warm_start"),
    key("WarmStartSettings", "train.warm_start"),
    key("clipnorm", "train.clip_gradients"),
    key("clipvalue", "train.clip_gradients"),
    key("global_clipnorm", "train.clip_gradients"),
    key("EarlyStopping", "train.early_stopping"),
    key("early_stopping", "train.early_stopping"),
    key("ReduceLROnPlateau", "train.reduce_on_plateau"),
    key("reduce_lr_on_plateau", "train.reduce_on_plateau"),
    key(
        "patience",
        "train.early_stopping.max_evaluations_without_improvement",
    ),
    key("exporters", "exporter.kind"),
    // Input functions.
    key("num_epochs", "input.train.epochs"),
    key("repeat", "input.train.epochs"),
    key("record_defaults", "feature.default"),
    key("compare_fn", "exporter.metric"),
    key("epochs", "input.train.epochs"),
    key("batch_size", "input.train.batch_size"),
    key("buffer_size", "input.train.shuffle_rows"),
    key("shuffle_buffer_size", "input.train.shuffle_rows"),
    key("shuffle", "input.train.shuffle_rows"),
    key("prefetch", "input.train.prefetch_batches"),
    key("column_names", "input.columns"),
    key("label_name", "input.label"),
    key("label_key", "input.label"),
    key("label_column", "input.label"),
    key("label_vocabulary", "input.label.vocabulary"),
    key("weight_column", "input.weight_column"),
    key("compression_type", "input.compression"),
    // Feature columns.
    key("hash_bucket_size", "feature.buckets"),
    key("num_buckets", "feature.buckets"),
    key("num_bins", "feature.buckets"),
    key("vocabulary_list", "feature.values"),
    key("vocabulary_file", "feature.file"),
    key("vocabulary_size", "feature.size"),
    key("num_oov_buckets", "feature.oov_buckets"),
    key("num_oov_indices", "feature.oov_buckets"),
    key("default_value", "feature.default"),
    key("normalizer_fn", "feature.normalizer"),
    key("weight_feature_key", "feature.weights"),
    key("source_column", "feature.column"),
    key("categorical_column", "feature.column"),
    key("dimension", "feature.deep"),
    key("embedding_dimension", "feature.deep"),
    key("embedding_column", "feature.deep"),
    key("shared_embeddings", "feature.deep"),
    key("shared_embedding_columns", "feature.deep"),
    key("indicator_column", "feature.deep"),
    key("linear_feature_columns", "feature.wide"),
    key("dnn_feature_columns", "feature.deep"),
    key("feature_columns", "feature.kind"),
    value("numeric_column", "feature.kind", "numeric"),
    value("bucketized_column", "feature.kind", "bucketized"),
    value("Discretization", "feature.kind", "bucketized"),
    value(
        "categorical_column_with_hash_bucket",
        "feature.kind",
        "hashed",
    ),
    value("Hashing", "feature.kind", "hashed"),
    value(
        "categorical_column_with_vocabulary_list",
        "feature.kind",
        "vocabulary",
    ),
    value(
        "categorical_column_with_vocabulary_file",
        "feature.kind",
        "vocabulary",
    ),
    value("StringLookup", "feature.kind", "vocabulary"),
    value(
        "categorical_column_with_identity",
        "feature.kind",
        "identity",
    ),
    value("crossed_column", "feature.kind", "crossed"),
    value("HashedCrossing", "feature.kind", "crossed"),
    // Estimators, their heads and layers.
    key("dnn_hidden_units", "model.hidden_units"),
    key("hidden_units", "model.hidden_units"),
    key("units", "model.hidden_units"),
    key("activation_fn", "model.activation"),
    key("dnn_activation_fn", "model.activation"),
    key("dnn_dropout", "model.dropout"),
    key("dropout_rate", "model.dropout"),
    key("n_classes", "model.n_classes"),
    key("num_classes", "model.n_classes"),
    key("label_dimension", "model.label_dimension"),
    key("loss_reduction", "model.loss_reduction"),
    key("loss_fn", "model.loss"),
    key("class_weight", "model.class_weights"),
    key("linear_sparse_combiner", "model.sparse_combiner"),
    key("linear_optimizer", "model.linear_optimizer"),
    key("dnn_optimizer", "model.dnn_optimizer"),
    value("LinearClassifier", "model.kind", "linear_classifier"),
    value("LinearRegressor", "model.kind", "linear_regressor"),
    value("LinearEstimator", "model.kind", "linear_estimator"),
    value("LinearModel", "model.kind", "linear_estimator"),
    value("DNNClassifier", "model.kind", "dnn_classifier"),
    value("DNNRegressor", "model.kind", "dnn_regressor"),
    value("DNNEstimator", "model.kind", "dnn_estimator"),
    value(
        "DNNLinearCombinedClassifier",
        "model.kind",
        "dnn_linear_combined_classifier",
    ),
    value(
        "DNNLinearCombinedRegressor",
        "model.kind",
        "dnn_linear_combined_regressor",
    ),
    value(
        "DNNLinearCombinedEstimator",
        "model.kind",
        "dnn_linear_combined_estimator",
    ),
    value(
        "WideDeepModel",
        "model.kind",
        "dnn_linear_combined_estimator",
    ),
    value("BaselineClassifier", "model.kind", "baseline_classifier"),
    value("BaselineRegressor", "model.kind", "baseline_regressor"),
    value("BaselineEstimator", "model.kind", "baseline_estimator"),
    value("BinaryClassHead", "model.head", "binary"),
    value("MultiClassHead", "model.head", "multi_class"),
    value("MultiLabelHead", "model.head", "multi_label"),
    value("RegressionHead", "model.head", "regression"),
    value("PoissonRegressionHead", "model.head", "poisson"),
    value(
        "LogisticRegressionHead",
        "model.head",
        "logistic_regression",
    ),
    // Optimizers.
    value(
        "GradientDescentOptimizer",
        "model.dnn_optimizer.kind",
        "sgd",
    ),
    value("MomentumOptimizer", "model.dnn_optimizer.kind", "momentum"),
    value("AdagradOptimizer", "model.dnn_optimizer.kind", "adagrad"),
    value(
        "AdagradDAOptimizer",
        "model.dnn_optimizer.kind",
        "adagrad_da",
    ),
    value("AdadeltaOptimizer", "model.dnn_optimizer.kind", "adadelta"),
    value("AdamOptimizer", "model.dnn_optimizer.kind", "adam"),
    value("AdamW", "model.dnn_optimizer.kind", "adam"),
    value("RMSPropOptimizer", "model.dnn_optimizer.kind", "rmsprop"),
    value("FtrlOptimizer", "model.linear_optimizer.kind", "ftrl"),
];

/// Returns the replacement of a name of TensorFlow or Keras, as a sentence.
pub(crate) fn hint(given: &str) -> Option<String> {
    let known = FOREIGN_NAMES.iter().find(|known| known.name == given)?;
    let (section, key) = known.key.rsplit_once('.')?;
    let section = match section {
        "feature" | "exporter" => format!("[[{section}]]"),
        _ => format!("[{section}]"),
    };
    Some(match known.value {
        Some(value) => format!("TensorFlow's `{given}` is `{key} = \"{value}\"` in {section}"),
        None if key == given => format!("`{given}` is a key of {section}"),
        None if known.key == "feature.deep" => {
            format!(
                "TensorFlow's `{given}` is `deep` in {section}, for example deep = {{ embedding = 8 }}"
            )
        }
        None => format!("TensorFlow's `{given}` is `{key}` in {section}"),
    })
}
