//! The server: models that are followed, and the port that answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::service::Routes;
use tracing::{info, warn};
use trainyard_daemon::{
    CancellationToken, Door, Hosts, Listener, Readiness, ReadinessState, ServerLimits, Services,
    listen, serve_service,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::Build;
use trainyard_security::{Protection, Security, check_exposure};

use crate::admitted::Admitted;
use crate::batching::Pool;
use crate::config::{Config, ModelConfig};
use crate::http_server;
use crate::inference::{DESCRIPTORS, Service};
use crate::intake::HttpLimits;
use crate::intake::Intake;
use crate::loader::Loader;
use crate::models::Models;
use crate::telemetry;
use crate::tensorflow_serving::{ModelServer, PredictionServer};

/// Interval between looks at the configuration file.
const CONFIG_INTERVAL: Duration = Duration::from_secs(1);

/// HTTP/2 window of a connection of gRPC, in bytes: what a message may take that waits for the budget.
const WINDOW_BYTES: u32 = 512 << 10;
/// Largest HTTP/2 frame, in bytes.
const FRAME_BYTES: u32 = 64 << 10;

/// Serves predictions until `stop` is cancelled, and then answers the requests that have arrived.
///
/// # Errors
/// The port is taken, or can be reached from other hosts without protection; or a job file has mistakes.
pub async fn run(
    config: Config,
    build: Build,
    security: Arc<Security>,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), Vec<Diagnostic>> {
    // Mistakes of a job end the program now, and not after a checkpoint was waited for.
    for model in &config.models {
        if let Some(job) = model.job()? {
            build(&job).map_err(|error| vec![error.into()])?;
        }
    }
    let one = |problem: Diagnostic| vec![problem];
    let listener = open(&config.listen, &security).await.map_err(one)?;
    let of_grpc = match &config.listen_grpc {
        Some(address) => Some(open(address, &security).await.map_err(one)?),
        None => None,
    };
    telemetry::describe();
    let intake = Intake::new(config.http);
    let is_open = security.protection() == Protection::Nothing;
    let bound = listener.local_addr().ok().filter(|_| is_open);
    let hosts = bound.map(|bound| Hosts::of_service(&config.listen, bound.ip()));
    let models = Arc::new(Models::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut followed = Followed {
        models: Arc::clone(&models),
        build,
        config: config.clone(),
        pool: Arc::new(Pool::start(cores).map_err(one)?),
        readiness: readiness.clone(),
        tokens: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    for model in &config.models {
        followed.follow(model);
    }
    report(&models, &readiness);
    if let Some(listener) = &of_grpc {
        info!(address = %address(listener), "gRPC is served");
    }
    info!(address = %address(&listener), "predictions are served");
    let door = Door {
        readiness: &readiness,
        security: &security,
    };
    let grpc = serve_grpc(of_grpc, (&models, &intake), config.http, door, &stop);
    let service = http_server::Service {
        models: Arc::clone(&models),
        limits: config.http,
        intake: intake.clone(),
        hosts,
        security: Arc::clone(&security),
    };
    let server = http_server::serve(listener, service, stop.clone());
    let watched = async {
        match &config.file {
            Some(file) => followed.watch(file, &stop).await,
            None => stop.cancelled().await,
        }
    };
    let (grpc, (), ()) = tokio::join!(grpc, server, watched);
    followed.end().await;
    grpc.map_err(one)
}

/// Opens a port.
async fn open(address: &str, security: &Security) -> Result<TcpListener, Diagnostic> {
    let Listener::Tcp(listener) = listen(address).await? else {
        let message = format!("cannot listen on {address}: clients need a port");
        return Err(Diagnostic::error(Code::E2001, message).help("give HOST:PORT"));
    };
    let bound = listener.local_addr().map_err(|error| {
        let message = format!("the address of the port is not known: {error}");
        Diagnostic::error(Code::E9002, message)
    })?;
    check_exposure(bound, security.protection()).map_err(|problem| Diagnostic {
        notes: vec!["everyone who reaches it could ask for predictions".to_owned()],
        ..problem.help(
            "give --tls-dir DIR (`trainyard pki --serving HOST` makes one), or, where the network protects the port, --insecure-no-auth",
        )
    })?;
    Ok(listener)
}

fn address(listener: &TcpListener) -> String {
    let bound = listener.local_addr();
    bound.map_or_else(|error| error.to_string(), |address| address.to_string())
}

/// Serves gRPC, if there is a port for it, until `stop` is cancelled.
async fn serve_grpc(
    listener: Option<TcpListener>,
    (models, intake): (&Arc<Models>, &Intake),
    limits: HttpLimits,
    door: Door<'_>,
    stop: &CancellationToken,
) -> Result<(), Diagnostic> {
    let Some(listener) = listener else {
        return Ok(());
    };
    let services = Services {
        routes: routes(models, intake),
        descriptors: DESCRIPTORS,
    };
    let limits = ServerLimits {
        connections_max: limits.connections_max,
        window_bytes: WINDOW_BYTES,
        frame_bytes: FRAME_BYTES,
        ..ServerLimits::default()
    };
    serve_service(
        Listener::Tcp(listener),
        services,
        door,
        limits,
        stop.clone(),
    )
    .await
}

/// Returns the services of gRPC.
pub(crate) fn routes(models: &Arc<Models>, intake: &Intake) -> Routes {
    let inference = Service::server(Arc::clone(models), intake.clone());
    let predictions = PredictionServer::server(Arc::clone(models), intake.clone());
    let states = ModelServer::server(Arc::clone(models));
    let inference = Admitted {
        service: inference,
        intake: intake.clone(),
    };
    Routes::new(inference)
        .add_service(Admitted {
            service: predictions,
            intake: intake.clone(),
        })
        .add_service(Admitted {
            service: states,
            intake: intake.clone(),
        })
}

/// Sets the readiness: ready, if every model has a version that answers.
fn report(models: &Models, readiness: &Readiness) {
    let waiting: Vec<String> = models
        .all()
        .into_iter()
        .filter(|(_, model)| model.newest().is_none())
        .map(|(name, _)| format!("a checkpoint of {name}"))
        .collect();
    readiness.set(if waiting.is_empty() {
        ReadinessState::ready("serving")
    } else {
        ReadinessState::waiting("waiting", waiting)
    });
}

/// The models of the configuration, and their loaders.
struct Followed {
    models: Arc<Models>,
    build: Build,
    config: Config,
    pool: Arc<Pool>,
    readiness: Readiness,
    /// The configuration of each model that is followed, and the token that stops its loader.
    tokens: BTreeMap<String, (ModelConfig, CancellationToken)>,
    tasks: JoinSet<()>,
}

impl Followed {
    /// Starts the loader of a model.
    fn follow(&mut self, config: &ModelConfig) {
        let token = CancellationToken::new();
        let loader = Loader {
            config: config.clone(),
            build: self.build,
            served: self.models.add(&config.name),
            limits: self.config.batching,
            pool: Arc::clone(&self.pool),
        };
        let models = Arc::clone(&self.models);
        let readiness = self.readiness.clone();
        let changed = move || report(&models, &readiness);
        self.tasks.spawn(loader.follow(changed, token.clone()));
        self.tokens
            .insert(config.name.clone(), (config.clone(), token));
    }

    /// Follows another set of models. A model whose configuration is the same goes on.
    fn change(&mut self, models: &[ModelConfig]) {
        let gone: Vec<String> = self
            .tokens
            .iter()
            .filter(|(_, (config, _))| !models.contains(config))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some((_, token)) = self.tokens.remove(&name) {
                token.cancel();
            }
            if !models.iter().any(|model| model.name == name) {
                info!(model = %name, "the model is not served any more");
                self.models.remove(&name);
            }
        }
        for model in models {
            if !self.tokens.contains_key(&model.name) {
                info!(model = %model.name, path = %model.path.display(), "the model is followed");
                self.follow(model);
            }
        }
        report(&self.models, &self.readiness);
    }

    /// Reads the configuration file again when it changes, until `stop` is cancelled.
    async fn watch(&mut self, file: &Path, stop: &CancellationToken) {
        let mut seen = stamp(file);
        loop {
            tokio::select! {
                () = sleep(CONFIG_INTERVAL) => {}
                () = stop.cancelled() => return,
            }
            while self.tasks.try_join_next().is_some() {}
            let now = stamp(file);
            if now == seen {
                continue;
            }
            seen = now;
            match Config::load(file).and_then(|config| self.checked(config)) {
                Ok(config) => {
                    let own = &self.config;
                    let is_same = config.listen == own.listen
                        && config.listen_grpc == own.listen_grpc
                        && config.tls_dir == own.tls_dir
                        && config.token_file == own.token_file
                        && config.http == own.http
                        && config.batching == own.batching;
                    if !is_same {
                        warn!(
                            "addresses, credentials and bounds of the configuration take effect at the next start"
                        );
                    }
                    self.change(&config.models);
                }
                Err(problem) => {
                    warn!(
                        "the configuration has changed and is not used: {}",
                        problem.log_line()
                    );
                }
            }
        }
    }

    /// Checks the jobs of a configuration.
    fn checked(&self, config: Config) -> Result<Config, Diagnostic> {
        for model in &config.models {
            let job = model
                .job()
                .map_err(|mut problems| problems.swap_remove(0))?;
            if let Some(job) = job {
                (self.build)(&job)?;
            }
        }
        Ok(config)
    }

    /// Stops all loaders.
    async fn end(mut self) {
        for (_, token) in self.tokens.values() {
            token.cancel();
        }
        // A loader that reads a checkpoint is not waited for.
        self.tasks.shutdown().await;
    }
}

/// Returns time of change and size of a file.
fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
