//! `tensorflow.serving.ModelService`: the state of the versions of a model.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::Error;
use crate::models::{Models, Wanted};
use crate::tensorflow_serving::generated::model_service_server::{
    ModelService, ModelServiceServer,
};
use crate::tensorflow_serving::generated::model_version_status::State;
use crate::tensorflow_serving::generated::{
    GetModelStatusRequest, GetModelStatusResponse, ModelVersionStatus, StatusProto,
};
use crate::tensorflow_serving::{given, wanted};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    models: Arc<Models>,
}

impl Service {
    /// Returns the server of the service.
    pub(crate) fn server(models: Arc<Models>) -> ModelServiceServer<Self> {
        ModelServiceServer::new(Self { models })
    }

    fn status(&self, request: &GetModelStatusRequest) -> Result<GetModelStatusResponse, Error> {
        let spec = given(request.model_spec.as_ref())?;
        let model = self.models.model(&spec.name)?;
        let wanted = wanted(spec)?;
        let refused = model.refused().filter(|refused| match wanted {
            Wanted::Newest => true,
            Wanted::Number(wanted) => wanted == refused.number,
            Wanted::Label(_) => false,
        });
        let versions = match wanted {
            Wanted::Newest => model.versions(),
            Wanted::Number(_) if refused.is_some() => Vec::new(),
            wanted => vec![self.models.version(&spec.name, wanted)?],
        };
        let refused = refused.map(|refused| ModelVersionStatus {
            version: refused.number as i64,
            state: State::End.into(),
            status: Some(StatusProto {
                error_code: refused.status.into(),
                error_message: refused.reason,
            }),
        });
        let available = versions.iter().rev().map(|version| ModelVersionStatus {
            version: version.number as i64,
            state: State::Available.into(),
            status: Some(StatusProto::default()),
        });
        let found: Vec<ModelVersionStatus> = refused.into_iter().chain(available).collect();
        if found.is_empty() {
            return Err(Error::NotFound(format!(
                "model `{}` has no version yet: it waits for a checkpoint",
                spec.name
            )));
        }
        Ok(GetModelStatusResponse {
            model_version_status: found,
        })
    }
}

#[tonic::async_trait]
impl ModelService for Service {
    async fn get_model_status(
        &self,
        request: Request<GetModelStatusRequest>,
    ) -> Result<Response<GetModelStatusResponse>, Status> {
        let answer = self.status(request.get_ref());
        answer.map(Response::new).map_err(|error| error.grpc())
    }
}
