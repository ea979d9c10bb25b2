//! Supervision: what a process needs around its work, whether it is a task of a cluster or not.

use std::sync::Arc;
use std::time::Duration;

use trainyard_cluster_spec::{ClusterSpec, Role};
use trainyard_security::Security;

use crate::{Context, Page, Readiness, ServiceArguments, StopSource};

/// The state in which a daemon is up for the service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpWhen {
    /// Once it is ready.
    Ready,
    /// Once it listens, though it may wait for others.
    Listening,
}

impl UpWhen {
    /// Returns the state of a role. A parameter server is up once it listens: the chief needs it before it is ready.
    pub(crate) fn of(role: Role) -> Self {
        match role {
            Role::Ps => Self::Listening,
            Role::Chief | Role::Worker | Role::Evaluator => Self::Ready,
        }
    }
}

/// The surroundings of a daemon's work: admin port, readiness, drain deadline.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// Name of the task, for messages.
    pub(crate) task: String,
    /// Name of the role.
    pub(crate) role: String,
    /// Cluster whose hosts may call the admin port by name.
    pub(crate) cluster: Arc<ClusterSpec>,
    /// Tasks of the cluster besides this one.
    pub(crate) other_tasks: usize,
    pub(crate) serves_admin: bool,
    /// Address of the admin port; absent = a free port of 127.0.0.1.
    pub(crate) admin_listen: Option<String>,
    pub(crate) drain_deadline: Duration,
    pub(crate) stop: StopSource,
    pub(crate) readiness: Readiness,
    pub(crate) page: Page,
    pub(crate) security: Arc<Security>,
    pub(crate) up_when: UpWhen,
}

impl Supervision {
    /// Returns the supervision of a task.
    pub(crate) fn of(context: &Context) -> Self {
        let configured = || context.cluster.admin.get(&context.task).cloned();
        Self {
            task: context.task.to_string(),
            role: context.task.role.to_string(),
            cluster: Arc::clone(&context.cluster),
            other_tasks: (context.cluster.num_ps() + context.cluster.num_worker_replicas())
                .saturating_sub(1),
            serves_admin: context.serves_admin,
            admin_listen: context.admin_listen.clone().or_else(configured),
            drain_deadline: context.drain_deadline,
            stop: context.stop.clone(),
            readiness: context.readiness.clone(),
            page: context.page.clone(),
            security: Arc::clone(&context.security),
            up_when: UpWhen::of(context.task.role),
        }
    }

    /// Returns the supervision of a daemon that is no task of a cluster. It is up once it listens.
    pub fn of_service(name: &str, arguments: &ServiceArguments, readiness: Readiness) -> Self {
        Self {
            task: name.to_owned(),
            role: name.to_owned(),
            cluster: Arc::new(ClusterSpec::without_tasks()),
            other_tasks: 0,
            serves_admin: true,
            admin_listen: arguments.admin_listen.clone(),
            drain_deadline: Duration::from_secs(arguments.drain_deadline),
            stop: StopSource::default(),
            readiness,
            page: Page::default(),
            security: Arc::default(),
            up_when: UpWhen::Listening,
        }
    }

    /// Sets the source of requests to stop; by default the signals of this process.
    pub fn with_stop(self, stop: StopSource) -> Self {
        Self { stop, ..self }
    }

    /// Sets the credentials of the daemon, whose expiry its metrics show.
    pub fn with_security(self, security: Arc<Security>) -> Self {
        Self { security, ..self }
    }
}
