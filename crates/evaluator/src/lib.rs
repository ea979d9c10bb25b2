//! The evaluator: watches the model directory, scores each checkpoint, exports the good ones.
