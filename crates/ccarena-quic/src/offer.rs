//! Offer of a server to its clients: schemes of the registry, and policies by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccarena_cc::{BindError, Config, FlowError, Policies, PolicySpec, Rate};

use crate::request::{Request, requirement};
use crate::run::HEADER_BYTES;
use crate::steering::Driver;

/// The scheme of connections that ask for none.
pub const DEFAULT_SCHEME: &str = "cubic";

/// Reason why a client does not get what it requests.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// A policy that the server does not have.
    #[error("policy: got {name:?}; expected one of the server's: {known}")]
    Policy {
        /// Requested name.
        name: String,
        /// Available names.
        known: String,
    },
    /// The client may not choose.
    #[error("the server decides itself how it sends (--fixed); ask without {0}")]
    Fixed(&'static str),
    /// The scheme or its parameters, or the policy.
    #[error(transparent)]
    Flow(#[from] FlowError),
}

/// A server's offer.
#[derive(Debug, Default)]
pub struct Offer {
    policies: Policies,
    files: BTreeMap<String, PathBuf>,
    /// Request that connections without their own get; with `fixed` all do.
    pub default: Request,
    /// Clients may not choose.
    pub fixed: bool,
}

impl Offer {
    /// Offers the policy in `file` under `name`.
    ///
    /// # Errors
    /// If it cannot be used; what was offered under that name before is then offered still.
    pub fn add(&mut self, name: &str, file: &Path) -> Result<(), BindError> {
        self.policies.load(file)?;
        self.files.insert(name.into(), file.into());
        Ok(())
    }

    /// Returns the driver of a connection that requests `request`, in packets of `mtu` bytes of UDP payload.
    ///
    /// # Errors
    ///
    /// If the offer does not have it.
    pub fn driver(&self, request: &Request, mtu: u16, seed: u64) -> Result<(String, Driver), OfferError> {
        let chosen = [("a scheme", request.scheme.is_some()), ("a policy", request.policy.is_some())];
        let params = ("parameters", !request.params.is_empty());
        let refused = chosen.into_iter().chain([params]).find(|(_, given)| self.fixed && *given);
        if let Some((what, _)) = refused {
            return Err(OfferError::Fixed(what));
        }
        let own = request.scheme.is_some() || request.policy.is_some();
        let base = if own { request } else { &self.default };
        let config = Config {
            mss: u32::from(mtu),
            header_bytes: HEADER_BYTES,
            seed,
            weight: request.weight.or(self.default.weight).unwrap_or(1.0),
            requirement: request.requirement.or(self.default.requirement).map(requirement),
            desired_rate: request.desired_mbps.map_or(Config::default().desired_rate, Rate::from_mbps),
            params: if own { request.params.clone() } else { self.default.params.clone() },
            ..Config::default()
        };
        let (scheme, spec, policy) = match &base.policy {
            None => (base.scheme.clone().unwrap_or_else(|| DEFAULT_SCHEME.into()), None, None),
            Some(name) => {
                let known = || self.files.keys().cloned().collect::<Vec<_>>().join(", ");
                let file = self.files.get(name);
                let file = file.ok_or_else(|| OfferError::Policy { name: name.clone(), known: known() })?;
                let policy = self.policies.load(file).map_err(FlowError::from)?;
                let spec = Arc::clone(&policy.trained().spec);
                let trained = PolicySpec::Artifact(file.to_string_lossy().into_owned());
                (spec.interface().name.clone(), Some(spec), Some(trained))
            }
        };
        let (controller, decider) = self.policies.build(&scheme, spec.as_deref(), &config, policy.as_ref(), false)?;
        Ok((scheme, Driver { controller, decider, settings: Vec::new(), keeps_reports: false }))
    }
}
