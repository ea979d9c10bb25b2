//! The adapter: a network as a model.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};
use serde_json::json;
use trainyard_feature_column::FeatureColumns;
use trainyard_input::{Batch, Cells, FieldKind, Schema};
use trainyard_model::{
    Error, Head, HeadMetrics, Model, Outcome, Prediction, Scores, custom_optimizer,
};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{FeatureConfig, FeatureKind, Job};
use trainyard_variable::{Gradients, Read, Reads, Values, VariableSpec};

use crate::BurnNet;
use crate::parameters::{GROUP, Parameters, floats};

/// A network as a [`Model`]: hand `BurnModel::<MyNet>::from_job` to `trainyard::main_with`.
#[derive(Debug)]
pub struct BurnModel<N> {
    /// The network on the device that records gradients.
    net: N,
    /// The same parameters on the bare device, without what training alone does (dropout).
    frozen: N,
    parameters: Parameters,
    columns: FeatureColumns,
    /// Place in a row of the input, of each numeric column.
    order: Vec<usize>,
    schema: Schema,
    serving_schema: Schema,
    label_field: usize,
    weight_field: Option<usize>,
    head: Head,
    optimizer: OptimizerConfig,
    description: serde_json::Value,
}

/// A batch made ready for a network.
#[derive(Debug, Clone)]
pub struct BurnFeatures {
    /// Records.
    pub rows: usize,
    /// `rows x features`, row-major.
    pub numbers: Vec<f32>,
    /// Labels, where the batch has them.
    pub labels: Option<Vec<f32>>,
    /// Weights, where the job names a column of them.
    pub weights: Option<Vec<f32>>,
}

/// Returns the device that networks compute on.
fn device() -> Device {
    #[cfg(feature = "cuda")]
    let device = Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    let device = Device::flex();
    device
}

impl<N: BurnNet> BurnModel<N> {
    /// Builds the model of a job.
    ///
    /// # Errors
    /// A network that cannot be built, is not the same in every process, or has other logits than the label needs; a
    /// feature that is not numeric; an optimizer out of range.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        let head = Head::new(&job.model, &job.input.label);
        let features = N::features(job);
        let mut serving_schema = Schema::default();
        let columns = numeric_columns(&features, &mut serving_schema)?;
        // Columns are in order of name, a row of the input is in the order of the features.
        let width = |name: &str| {
            columns
                .numeric
                .iter()
                .find(|column| column.name == name)
                .map_or(0, |column| column.width)
        };
        let begin = |name: &str| {
            let before = features.iter().take_while(|feature| feature.name != name);
            before.map(|feature| width(&feature.name)).sum::<usize>()
        };
        let places = columns
            .numeric
            .iter()
            .map(|column| (begin(&column.name), column.width));
        let order = places
            .flat_map(|(begin, width)| begin..begin + width)
            .collect();
        let mut schema = serving_schema.clone();
        let label_field = head.want(&mut schema);
        let weight = job.input.weight_column.as_ref();
        let weight_field = weight.map(|column| schema.want(column, FieldKind::FLOAT));
        let device = device().autodiff();
        let net = N::build(job, &device)?.train();
        let parameters = Parameters::new(&net, &N::build(job, &device)?.train(), N::initializer)?;
        let model = Self {
            frozen: net.valid(),
            net,
            parameters,
            columns,
            order,
            schema,
            serving_schema,
            label_field,
            weight_field,
            head,
            optimizer: custom_optimizer(job)?,
            description: json!({
                "model": job.model, "label": job.input.label, "features": features,
                "network": std::any::type_name::<N>(),
            }),
        };
        model.check_logits()?;
        Ok(model)
    }

    /// Sends one row of zeros through the network: a wrong shape is told before anything starts.
    fn check_logits(&self) -> Result<(), Error> {
        let input = Tensor::zeros([1, self.order.len()], &device());
        let given = self.frozen.forward(input).dims();
        let units = self.head.units();
        if given == [1, units] {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the network makes logits of shape {given:?} from one row, the label needs {:?}",
            [1, units]
        )))
    }

    fn input(&self, features: &BurnFeatures, device: &Device) -> Tensor<2> {
        let shape = [features.rows, self.order.len()];
        Tensor::from_data(TensorData::new(features.numbers.clone(), shape), device)
    }

    /// Computes the logits without the means to differentiate them.
    fn logits(&self, features: &BurnFeatures, values: &Values) -> Vec<f32> {
        let net = self.parameters.load(self.frozen.clone(), values);
        floats(net.forward(self.input(features, &device())))
    }
}

/// Makes columns of features, none of which may be categorical.
fn numeric_columns(
    features: &[FeatureConfig],
    schema: &mut Schema,
) -> Result<FeatureColumns, Error> {
    if features.is_empty() {
        let message =
            "the network has no feature: add [[feature]] to the job, or write BurnNet::features";
        return Err(Error::Invalid(message.to_owned()));
    }
    if let Some(feature) = features
        .iter()
        .find(|feature| !matches!(feature.kind, FeatureKind::Numeric { .. }))
    {
        return Err(Error::Invalid(format!(
            "feature `{}` is not numeric, as the input of a network must be",
            feature.name
        )));
    }
    Ok(FeatureColumns::new(features, schema))
}

impl<N: BurnNet> Model for BurnModel<N> {
    type Features = BurnFeatures;
    type Scratch = Vec<f32>;
    type Metrics = HeadMetrics;

    fn variables(&self) -> &[VariableSpec] {
        &self.parameters.specs
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        BTreeMap::from([(GROUP.to_owned(), self.optimizer.clone())])
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.serving_schema
    }

    fn features(&self, batch: &Batch) -> Result<BurnFeatures, Error> {
        let labelled =
            batch.columns.len() > self.label_field.max(self.serving_schema.fields.len() - 1);
        let labels = labelled
            .then(|| self.head.labels(batch, self.label_field))
            .transpose()?;
        let weights = match self
            .weight_field
            .filter(|_| labelled)
            .map(|field| &batch.columns[field].cells)
        {
            Some(Cells::Float(weights)) => Some(weights.clone()),
            _ => None,
        };
        let by_name = self.columns.transform(batch)?;
        let mut numbers = vec![0.0; by_name.numbers.len()];
        let width = self.order.len();
        for (row, out) in by_name
            .numbers
            .chunks_exact(width)
            .zip(numbers.chunks_exact_mut(width))
        {
            row.iter()
                .zip(&self.order)
                .for_each(|(value, &place)| out[place] = *value);
        }
        Ok(BurnFeatures {
            rows: batch.rows,
            numbers,
            labels,
            weights,
        })
    }

    fn reads(&self, _features: &BurnFeatures) -> Reads {
        vec![Read::Whole; self.parameters.specs.len()]
    }

    fn train(
        &self,
        features: &BurnFeatures,
        values: &Values,
        gradients: &mut Gradients,
        delta: &mut Vec<f32>,
    ) -> Result<Outcome, Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        let device = device().autodiff();
        let net = self.parameters.load(self.net.clone(), values);
        let logits = net.forward(self.input(features, &device));
        let known = floats(logits.clone().inner());
        let loss = self
            .head
            .loss(&known, labels, features.weights.as_deref(), delta);
        // The head knows the gradient of the loss by each logit. The sum of logit times that number has the same
        // gradient, so burn goes back from there.
        let data = TensorData::new(std::mem::take(delta), [features.rows, self.head.units()]);
        let graph = (logits * Tensor::from_data(data, &device)).sum().backward();
        self.parameters.gradients(&net, graph, gradients);
        Ok(Outcome {
            loss,
            examples: features.rows,
        })
    }

    fn metrics(&self) -> HeadMetrics {
        HeadMetrics::default()
    }

    fn evaluate(
        &self,
        features: &BurnFeatures,
        values: &Values,
        metrics: &mut HeadMetrics,
        _scratch: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        metrics.add(
            &self.head,
            &self.logits(features, values),
            labels,
            features.weights.as_deref(),
            None,
        );
        Ok(())
    }

    fn scores(&self, metrics: &HeadMetrics) -> Scores {
        metrics.scores(&self.head)
    }

    fn predict(
        &self,
        features: &BurnFeatures,
        values: &Values,
        _scratch: &mut Vec<f32>,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        let logits = self.logits(features, values);
        let rows = logits.chunks_exact(self.head.units());
        Ok(rows.map(|logits| self.head.predict(logits)).collect())
    }

    fn describe(&self) -> serde_json::Value {
        self.description.clone()
    }
}
