//! Offer of a server to its clients: schemes of the registry, and policies by name, as an operator runs them.

use std::collections::BTreeMap;
use std::path::Path;

use ccarena_cc::bounded::{self, LARGEST_POLICY_BYTES};
use ccarena_cc::flow::{Fallback, Refused};
use ccarena_cc::operation::{self, Role};
use ccarena_cc::{BindError, Config, Dur, Flow, FlowError, Policies, Rate, Source, Time};

use crate::operate::{Asking, HOST, Offered, Operation, Part, Version};
use crate::request::{Request, requirement};
use crate::run::HEADER_BYTES;

/// The scheme of connections that ask for none, and that runs in the place of policies.
pub const DEFAULT_SCHEME: &str = "cubic";

/// Reason why a client does not get what it requests, or an operator what he wants.
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
    /// The scheme or its parameters.
    #[error(transparent)]
    Scheme(#[from] FlowError),
    /// The policy, or the scheme in its place.
    #[error(transparent)]
    Flow(#[from] Refused),
    /// A share that is none.
    #[error("share {0}; expected a number from 0 to 1")]
    Share(f64),
    /// A prefix that is none.
    #[error(transparent)]
    Prefix(#[from] operation::NoPrefix),
    /// A policy of another scheme under a name that is offered.
    #[error("{name} runs a policy of scheme {expected}, and this one is of {found}: load it under another name (--as)")]
    OtherScheme {
        /// The name.
        name: String,
        /// Scheme of the new policy.
        found: String,
        /// Scheme of the one in force.
        expected: String,
    },
    /// No policy to return to.
    #[error("{0} has had one policy only; nothing was before it")]
    NothingBefore(String),
}

/// A server's offer.
#[derive(Debug, Default)]
pub struct Offer {
    policies: Policies,
    offered: BTreeMap<String, Offered>,
    /// Request that connections without their own get; with `fixed` all do.
    pub default: Request,
    /// Clients may not choose.
    pub fixed: bool,
    /// Settings with which policies begin.
    pub operation: Operation,
    /// Scheme in the place of policies; none is [`DEFAULT_SCHEME`].
    pub fallback: Option<String>,
}

/// A connection's choice.
#[derive(Debug)]
pub struct Chosen {
    /// The scheme.
    pub scheme: String,
    /// The flow that sends.
    pub flow: Flow,
    /// Record of the connection, if a policy was chosen.
    pub part: Option<Part>,
}

impl Offer {
    /// Offers the policy in `file` under `name`.
    ///
    /// # Errors
    /// If it cannot be used; what was offered under that name before is then offered still.
    pub fn add(&mut self, name: &str, file: &Path) -> Result<(), BindError> {
        let bytes = bounded::read(file, LARGEST_POLICY_BYTES)
            .map_err(|source| BindError::Read { file: file.into(), source })?;
        let version = Version::read(&bytes, &file.to_string_lossy())
            .map_err(|source| BindError::Artifact { file: file.into(), source })?;
        self.offered.insert(name.into(), Offered::new(version, self.operation, Time::ZERO));
        Ok(())
    }

    /// All policies by name.
    #[must_use]
    pub fn offered(&self) -> &BTreeMap<String, Offered> {
        &self.offered
    }

    /// The policy `name`.
    ///
    /// # Errors
    /// If it is not offered.
    pub fn of(&mut self, name: &str) -> Result<&mut Offered, OfferError> {
        if !self.offered.contains_key(name) {
            return Err(self.missing(name));
        }
        self.offered.get_mut(name).ok_or_else(|| OfferError::Policy { name: name.into(), known: String::new() })
    }

    fn missing(&self, name: &str) -> OfferError {
        OfferError::Policy { name: name.into(), known: self.offered.keys().cloned().collect::<Vec<_>>().join(", ") }
    }

    /// Puts `version` in force under `name` at `now`, in the shadow or not.
    ///
    /// # Errors
    /// If the policy is of another scheme than the one in force, or cannot run here. Then nothing changes.
    pub fn load(
        &mut self,
        name: &str,
        version: Version,
        shadow: bool,
        guard: Option<u32>,
        now: Time,
    ) -> Result<(), OfferError> {
        let before = self.offered.get(name).map_or(self.operation, |offered| offered.operation);
        let operation = Operation { shadow, guard: guard.unwrap_or(before.guard), ..before };
        let role = if shadow { Role::Shadow } else { Role::Policy };
        // Connections of the default are what comes; others that it does not suit are refused when they come.
        self.flow(&version, &self.config(&self.default, 1200, 0), &operation, role, None, now)?;
        match self.offered.get_mut(name) {
            Some(offered) if offered.version.scheme() != version.scheme() => {
                let (found, expected) = (version.scheme().into(), offered.version.scheme().into());
                return Err(OfferError::OtherScheme { name: name.into(), found, expected });
            }
            Some(offered) => {
                offered.replace(version);
                offered.operation = operation;
            }
            None => drop(self.offered.insert(name.into(), Offered::new(version, operation, now))),
        }
        Ok(())
    }

    /// Gives the policy `name` a `share` of the connections from `to`.
    ///
    /// # Errors
    /// If it is not offered, or for a share or prefix that is none. Then nothing changes.
    pub fn canary(&mut self, name: &str, share: f64, to: Option<&str>, guard: Option<u32>) -> Result<(), OfferError> {
        let share = operation::share(share).ok_or(OfferError::Share(share))?;
        let to = to.map(str::parse).transpose()?;
        let offered = self.of(name)?;
        let guard = guard.unwrap_or(offered.operation.guard);
        offered.operation = Operation { share, shadow: false, to, guard };
        Ok(())
    }

    /// Returns to the policy that was in force under `name` before.
    ///
    /// # Errors
    /// If it is not offered, or no policy was before.
    pub fn roll_back(&mut self, name: &str) -> Result<(), OfferError> {
        if self.of(name)?.roll_back() { Ok(()) } else { Err(OfferError::NothingBefore(name.into())) }
    }

    /// The scheme in the place of policies, for a flow with `config`.
    ///
    /// # Errors
    /// If it cannot run here.
    pub fn fallback(&self, config: &Config) -> Result<Fallback, Refused> {
        Fallback::new(self.fallback.as_deref().unwrap_or(DEFAULT_SCHEME), config, &HOST)
    }

    fn config(&self, request: &Request, mtu: u16, seed: u64) -> Config {
        let own = request.scheme.is_some() || request.policy.is_some();
        Config {
            mss: u32::from(mtu),
            header_bytes: HEADER_BYTES,
            seed,
            weight: request.weight.or(self.default.weight).unwrap_or(1.0),
            requirement: request.requirement.or(self.default.requirement).map(requirement),
            desired_rate: request.desired_mbps.map_or(Config::default().desired_rate, Rate::from_mbps),
            params: if own { request.params.clone() } else { self.default.params.clone() },
            ..Config::default()
        }
    }

    /// Checks what connections get that ask for nothing, in packets of `mtu` bytes.
    ///
    /// # Errors
    ///
    /// If the offer does not have it, or the scheme in the place of policies cannot run here.
    pub fn check(&mut self, mtu: u16, asking: Asking) -> Result<(), OfferError> {
        self.fallback(&self.config(&Request::default(), mtu, 0))?;
        let Some(name) = self.default.policy.clone() else {
            return self.choose(&Request::default(), mtu, 0, asking, Time::ZERO).map(drop);
        };
        let offered = self.offered.get(&name).ok_or_else(|| self.missing(&name))?;
        let role = if offered.operation.shadow { Role::Shadow } else { Role::Policy };
        let config = self.config(&Request::default(), mtu, 0);
        self.flow(&offered.version, &config, &offered.operation, role, None, Time::ZERO).map(drop)
    }

    /// Returns the choice of a connection `asking` with `request` at `now`, in packets of `mtu` bytes of UDP payload.
    ///
    /// # Errors
    ///
    /// If the offer does not have it.
    pub fn choose(
        &mut self,
        request: &Request,
        mtu: u16,
        seed: u64,
        asking: Asking,
        now: Time,
    ) -> Result<Chosen, OfferError> {
        let chosen = [("a scheme", request.scheme.is_some()), ("a policy", request.policy.is_some())];
        let params = ("parameters", !request.params.is_empty());
        let refused = chosen.into_iter().chain([params]).find(|(_, given)| self.fixed && *given);
        if let Some((what, _)) = refused {
            return Err(OfferError::Fixed(what));
        }
        let own = request.scheme.is_some() || request.policy.is_some();
        let base = if own { request } else { &self.default };
        let config = self.config(request, mtu, seed);
        let Some(name) = base.policy.clone() else {
            let scheme = base.scheme.clone().unwrap_or_else(|| DEFAULT_SCHEME.into());
            let (controller, decider) = self.policies.build(&scheme, None, &config, None, false)?;
            return Ok(Chosen { scheme, flow: Flow::new(controller, decider, now), part: None });
        };
        let offered = self.offered.get(&name).ok_or_else(|| self.missing(&name))?;
        let role = offered.operation.role(asking);
        let flow = self.flow(&offered.version, &config, &offered.operation, role, None, now)?;
        let scheme = offered.version.scheme().to_owned();
        let part = self.of(&name)?.open(&name, asking, now);
        Ok(Chosen { scheme, flow, part: Some(part) })
    }

    /// Returns the flow of a connection with `request` whose `part` is to go on in `role` at `now`, from `present` with its
    /// smoothed RTT.
    ///
    /// # Errors
    /// If the policy in force cannot run with the request's parameters.
    pub fn next(
        &self,
        part: &Part,
        role: Role,
        request: &Request,
        mtu: u16,
        (present, srtt): (&Flow, Dur),
        now: Time,
    ) -> Result<Flow, OfferError> {
        let offered = self.offered.get(&part.name).ok_or_else(|| self.missing(&part.name))?;
        let config = self.config(request, mtu, 0);
        self.flow(&offered.version, &config, &offered.operation, role, Some((present, srtt)), now)
    }

    fn flow(
        &self,
        version: &Version,
        config: &Config,
        operation: &Operation,
        role: Role,
        present: Option<(&Flow, Dur)>,
        now: Time,
    ) -> Result<Flow, OfferError> {
        let fallback = self.fallback(config)?;
        let acting = || present.map_or_else(|| fallback.flow(), |(flow, srtt)| fallback.after(flow, srtt));
        if !role.decides() {
            return Ok(acting());
        }
        let config = present.map_or_else(|| config.clone(), |(flow, srtt)| flow.successor(config, srtt));
        let policy = Flow::build(&Source::Policy(version.policy.clone()), &config, &HOST, now)?;
        Ok(match role {
            Role::Shadow => policy.shadowed(fallback.clone(), acting())?,
            _ => policy.guarded(fallback, operation.guard),
        })
    }
}
