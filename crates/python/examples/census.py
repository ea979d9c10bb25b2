"""Wide and deep on the adult census, by Estimator. Arguments: TRAIN.csv EVAL.csv MODEL_DIR."""

import sys

import trainyard.data
import trainyard.estimator as tf_estimator

TRAIN, EVAL, MODEL_DIR = sys.argv[1:]


def build_columns():
    fc = tf_estimator.feature_column
    age = fc.numeric_column("age")
    education = fc.categorical_column_with_vocabulary_list(
        "education",
        ["Bachelors", "HS-grad", "11th", "Masters", "9th", "Some-college", "Assoc-acdm", "Assoc-voc", "7th-8th",
         "Doctorate", "Prof-school", "5th-6th", "10th", "1st-4th", "Preschool", "12th"])
    marital = fc.categorical_column_with_vocabulary_list(
        "marital-status",
        ["Married-civ-spouse", "Divorced", "Married-spouse-absent", "Never-married", "Separated", "Married-AF-spouse",
         "Widowed"])
    relationship = fc.categorical_column_with_vocabulary_list(
        "relationship", ["Husband", "Not-in-family", "Wife", "Own-child", "Unmarried", "Other-relative"])
    workclass = fc.categorical_column_with_vocabulary_list(
        "workclass",
        ["Self-emp-not-inc", "Private", "State-gov", "Federal-gov", "Local-gov", "?", "Self-emp-inc", "Without-pay",
         "Never-worked"])
    occupation = fc.categorical_column_with_hash_bucket("occupation", hash_bucket_size=1000)
    buckets = fc.bucketized_column(age, boundaries=[18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    wide = [education, marital, relationship, workclass, occupation, buckets,
            fc.crossed_column(["education", "occupation"], hash_bucket_size=1000),
            fc.crossed_column([buckets, "education", "occupation"], hash_bucket_size=1000)]
    deep = [age] + [fc.numeric_column(name) for name in ["education-num", "capital-gain", "capital-loss", "hours-per-week"]]
    deep += [fc.indicator_column(column) for column in [workclass, education, marital, relationship]]
    deep += [fc.embedding_column(occupation, dimension=8)]
    return wide, deep


def input_fn(path, epochs, shuffle):
    return trainyard.data.csv(
        path, "Salary", positive=">50K", batch_size=40, shuffle=30000 if shuffle else 0, num_epochs=epochs)


def main():
    wide, deep = build_columns()
    estimator = tf_estimator.DNNLinearCombinedClassifier(
        model_dir=MODEL_DIR, linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[100, 75, 50, 25],
        config=tf_estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=2000))
    train = tf_estimator.TrainSpec(lambda: input_fn(TRAIN, 10, True))
    test = tf_estimator.EvalSpec(lambda: input_fn(EVAL, 1, False), steps=None, start_delay_secs=0, throttle_secs=0)
    metrics, _ = tf_estimator.train_and_evaluate(estimator, train, test)
    for name in sorted(metrics):
        print(f"{name}: {metrics[name]}")


if __name__ == "__main__":
    main()
