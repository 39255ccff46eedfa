//! A network as a list of operations on named values, checked when it is read: every shape is known before anything runs.
//!
//! Values are those of one observation (no batch axis), of up to [`MAX_RANK`] axes. The first is `observation`, then come
//! the recurrent states, which belong to a flow, then one value per node, in the order in which they are computed. Which
//! operations there are, with their attributes, is in [`Op`] and `docs/artifact.md`.

mod ops;

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::error::PolicyError;

/// The first value of every graph: the normalised observation.
pub const OBSERVATION: &str = "observation";
/// A file of a few hundred bytes must not ask for gigabytes, nor for minutes.
pub(super) const MAX_NODES: usize = 1024;
pub(super) const MAX_RANK: usize = 4;
pub(super) const MAX_VALUES: usize = 1 << 20;
pub(super) const MAX_PRODUCTS: usize = 1 << 25;

/// Index of a value.
pub type ValueId = usize;
/// Index of a tensor.
pub type TensorId = usize;

/// A checked network.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The observation, the states, and what each node gives.
    pub values: Vec<Value>,
    /// Recurrent states, zeros at a flow's start.
    pub states: Vec<State>,
    /// Operations, each after all that it takes.
    pub nodes: Vec<Node>,
    /// The value that is the policy's output.
    pub output: ValueId,
    /// Weights.
    pub tensors: Vec<Tensor>,
}

/// A value: name and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Name, unique in the graph.
    pub name: String,
    /// Axes of the state.
    pub shape: Vec<usize>,
}

/// A recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Value during a decision.
    pub value: ValueId,
    /// Value after the decision.
    pub next: ValueId,
}

/// An operation on values.
#[derive(Clone, Debug)]
pub struct Node {
    /// Operation of the node.
    pub op: Op,
    /// Inputs of the operation.
    pub inputs: Vec<ValueId>,
    /// Output of the operation.
    pub output: ValueId,
}

/// Weights by name, by rows.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in the file.
    pub name: String,
    /// Axes.
    pub shape: Vec<usize>,
    /// Finite numbers.
    pub data: Vec<f32>,
}

/// The operations. Shapes are those of PyTorch without the batch axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// y = W x + b over the last axis; weight `[out, in]`, bias `[out]`.
    Linear {
        /// W.
        weight: TensorId,
        /// b.
        bias: Option<TensorId>,
    },
    /// Cross-correlation of `[channels, length]`; weight `[filters, channels, kernel]`, bias `[filters]`.
    Conv1d {
        /// Filters.
        weight: TensorId,
        /// One for each filter.
        bias: Option<TensorId>,
        /// Step of the kernel.
        stride: usize,
        /// Zeros on either side.
        padding: usize,
        /// Distance of the kernel's entries.
        dilation: usize,
    },
    /// A gated recurrent unit. Takes x, `[in]` or a sequence `[steps, in]`, and the state before it, `[hidden]` (zeros if
    /// absent); gives the state after each step. Gates are in PyTorch's order: r, z, n.
    Gru(Cell),
    /// A long short-term memory, as `Gru`; the state is h and then c, `[2 hidden]`. Gates: i, f, g, o.
    Lstm(Cell),
    /// (x - mean) / √(variance + eps) over the last axis, times weight, plus bias.
    LayerNorm {
        /// `[last axis]`.
        weight: Option<TensorId>,
        /// `[last axis]`.
        bias: Option<TensorId>,
        /// Keeps the root from zero.
        eps: f32,
    },
    /// Row ⌊x⌋ (towards zero, held to the rows that there are) of `weight` `[rows, width]`, for each entry of x.
    Embedding {
        /// The rows.
        weight: TensorId,
    },
    /// Inputs one after the other along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Entries `start..stop` of an axis.
    Slice {
        /// The axis.
        axis: usize,
        /// First entry.
        start: usize,
        /// One past the last.
        stop: usize,
    },
    /// The same numbers in another shape.
    Reshape,
    /// Axes in another order: axis k of the result is axis `axes[k]` of the input.
    Transpose {
        /// Each of them once.
        axes: Vec<usize>,
    },
    /// A function of each entry.
    Map(Function),
    /// e^x / Σ e^x along an axis.
    Softmax {
        /// The axis.
        axis: usize,
    },
    /// Mean over an axis, which goes.
    Mean {
        /// The axis.
        axis: usize,
    },
    /// Sum of two values, axes of length one repeated as needed.
    Add,
    /// Product of two values, axes of length one repeated as needed.
    Mul,
    /// Quotient of two values, zero for a division by zero; axes of length one repeated as needed.
    Div,
    /// x · scale + shift, with constants.
    Affine {
        /// Factors; 1 if absent.
        scale: Option<Constant>,
        /// Offsets; 0 if absent.
        shift: Option<Constant>,
    },
}

/// Weights of a recurrent cell with g gates: `weight_ih` `[g hidden, in]`, `weight_hh` `[g hidden, hidden]`, and either
/// both biases, `[g hidden]`, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Weights for the input.
    pub weight_ih: TensorId,
    /// Weights for the state.
    pub weight_hh: TensorId,
    /// Biases of the input and of the state.
    pub biases: Option<(TensorId, TensorId)>,
}

/// A constant of `affine`.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// The same for every entry.
    Number(f32),
    /// One that is repeated to the input's shape.
    Tensor(TensorId),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// max(x, 0).
    Relu,
    /// x, or this much of it below zero.
    LeakyRelu(f32),
    /// x, or this times e^x - 1 below zero.
    Elu(f32),
    /// x σ(x).
    Silu,
    /// x Φ(x).
    Gelu,
    /// Approximation of GELU by tanh.
    GeluTanh,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// ln(1 + e^x).
    Softplus,
    /// e^x, of x held to at most 88, so that it is finite.
    Exp,
    /// x held between two bounds.
    Clip(f32, f32),
}

/// Source of weights by name.
pub(super) trait Tensors {
    /// The tensor `name`: float32, finite.
    fn read(&self, name: &str) -> Result<Tensor, PolicyError>;
}

impl Graph {
    /// Reads and checks the JSON form.
    ///
    /// # Errors
    /// [`PolicyError`] names the node, what was found and what was expected.
    pub(super) fn parse(text: &str, tensors: &dyn Tensors) -> Result<Self, PolicyError> {
        let json: Json = serde_json::from_str(text).map_err(|e| graph_error(format!("no JSON ({e})"), "JSON"))?;
        let mut top = Fields::new("graph", json)?;
        let input = top.size("input", 1, MAX_VALUES, None)?;
        let observation = Value { name: OBSERVATION.into(), shape: vec![input] };
        let graph = Self { values: vec![observation], states: vec![], nodes: vec![], output: 0, tensors: Vec::new() };
        let mut builder =
            Builder { graph, by_name: [(OBSERVATION.to_string(), 0)].into(), tensors, ids: HashMap::new(), used: 0 };

        let mut states = Vec::new();
        for (index, entry) in top.list("state", Some(vec![]))?.into_iter().enumerate() {
            let mut fields = Fields::new(&format!("graph state {index}"), entry)?;
            let shape = fields.sizes("shape")?;
            states.push((fields.text("name")?, fields.text("next")?));
            fields.finish()?;
            builder.add(&states[index].0, shape)?;
        }
        let nodes = top.list("nodes", None)?;
        if nodes.len() > MAX_NODES {
            return Err(graph_error(format!("{} nodes", nodes.len()), &format!("at most {MAX_NODES}")));
        }
        for (index, entry) in nodes.into_iter().enumerate() {
            builder.node(index, entry)?;
        }
        for (value, (name, next)) in states.iter().enumerate() {
            let (value, next) = (value + 1, builder.find("graph", "a state's next", next)?);
            let (shape, expected) = (&builder.graph.values[next].shape, &builder.graph.values[value].shape);
            if shape != expected {
                let found = format!("state {name:?} whose next value has shape {shape:?}");
                return Err(graph_error(found, &format!("{expected:?}")));
            }
            builder.graph.states.push(State { value, next });
        }
        builder.graph.output = builder.find("graph", "output", &top.text("output")?)?;
        top.finish()?;
        Ok(builder.graph)
    }

    /// The shape of a value.
    #[must_use]
    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.values[value].shape
    }

    /// Numbers in all states together.
    #[must_use]
    pub fn state_len(&self) -> usize {
        self.states.iter().map(|s| count(self.shape(s.value))).sum()
    }
}

/// Numbers in a value of this shape.
pub(super) fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn graph_error(found: String, expected: &str) -> PolicyError {
    PolicyError::Graph { place: "graph".into(), found, expected: expected.into() }
}

/// A graph while it is read.
pub(super) struct Builder<'a> {
    graph: Graph,
    by_name: HashMap<String, ValueId>,
    tensors: &'a dyn Tensors,
    ids: HashMap<String, TensorId>,
    used: usize,
}

impl Builder<'_> {
    fn find(&self, place: &str, what: &str, name: &str) -> Result<ValueId, PolicyError> {
        self.by_name.get(name).copied().ok_or_else(|| PolicyError::Graph {
            place: place.into(),
            found: format!("{what} {name:?}, which is no value before it"),
            expected: "the observation, a state or an earlier node".into(),
        })
    }

    fn add(&mut self, name: &str, shape: Vec<usize>) -> Result<ValueId, PolicyError> {
        let size = shape.iter().try_fold(1_usize, |n, axis| n.checked_mul(*axis)).filter(|n| *n <= MAX_VALUES);
        let held = self.graph.values.iter().map(|v| count(&v.shape)).sum::<usize>();
        if shape.len() > MAX_RANK || shape.contains(&0) || size.is_none_or(|size| held + size > MAX_VALUES) {
            let expected = format!("up to {MAX_RANK} axes, none empty, and {MAX_VALUES} numbers in all values");
            return Err(PolicyError::Graph { place: place(name), found: format!("shape {shape:?}"), expected });
        }
        let id = self.graph.values.len();
        if self.by_name.insert(name.into(), id).is_some() {
            let found = "a second value of this name".to_string();
            return Err(PolicyError::Graph { place: place(name), found, expected: "unique names".into() });
        }
        self.graph.values.push(Value { name: name.into(), shape });
        Ok(id)
    }

    fn node(&mut self, index: usize, entry: Json) -> Result<(), PolicyError> {
        let mut fields = Fields::new(&format!("graph node {index}"), entry)?;
        let name = fields.text("name")?;
        let op = fields.text("op")?;
        fields.place = format!("graph node {name:?} ({op})");
        let mut inputs = Vec::new();
        for input in fields.list("inputs", None)? {
            let Json::String(input) = input else {
                return Err(fields.error(format!("input {input}"), "names of values"));
            };
            inputs.push(self.find(&fields.place, "input", &input)?);
        }
        let shapes: Vec<Vec<usize>> = inputs.iter().map(|&i| self.graph.shape(i).to_vec()).collect();
        let (op, shape, products) = ops::read(&op, &mut fields, &shapes, self)?;
        self.used = self.used.saturating_add(products);
        if self.used > MAX_PRODUCTS {
            let expected = format!("at most {MAX_PRODUCTS}");
            return Err(fields.error(format!("{} multiplications per decision so far", self.used), &expected));
        }
        fields.finish()?;
        let output = self.add(&name, shape)?;
        self.graph.nodes.push(Node { op, inputs, output });
        Ok(())
    }

    /// The tensor that attribute `key` names, if it does.
    pub(super) fn tensor(&mut self, fields: &mut Fields, key: &str) -> Result<Option<TensorId>, PolicyError> {
        match fields.take(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(name)) => self.tensor_named(&name).map(Some),
            Some(other) => Err(fields.error(format!("{key} {other}"), "the name of a tensor")),
        }
    }

    pub(super) fn tensor_named(&mut self, name: &str) -> Result<TensorId, PolicyError> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let id = self.graph.tensors.len();
        self.graph.tensors.push(self.tensors.read(name)?);
        self.ids.insert(name.into(), id);
        Ok(id)
    }

    pub(super) fn named(&self, id: TensorId) -> &Tensor {
        &self.graph.tensors[id]
    }
}

fn place(name: &str) -> String {
    format!("graph node {name:?}")
}

/// The entries of a JSON object, each taken once.
pub(super) struct Fields {
    /// Place of the node, for messages.
    pub(super) place: String,
    map: Map<String, Json>,
}

impl Fields {
    fn new(place: &str, json: Json) -> Result<Self, PolicyError> {
        match json {
            Json::Object(map) => Ok(Self { place: place.into(), map }),
            other => {
                let found = short(&other);
                Err(PolicyError::Graph { place: place.into(), found, expected: "a JSON object".into() })
            }
        }
    }

    pub(super) fn error(&self, found: String, expected: &str) -> PolicyError {
        PolicyError::Graph { place: self.place.clone(), found, expected: expected.into() }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Json> {
        self.map.remove(key)
    }

    fn needed(&mut self, key: &str, expected: &str) -> Result<Json, PolicyError> {
        self.take(key).ok_or_else(|| self.error(format!("no {key:?}"), expected))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, PolicyError> {
        match self.needed(key, "a text")? {
            Json::String(text) => Ok(text),
            other => Err(self.error(format!("{key} {}", short(&other)), "a text")),
        }
    }

    fn list(&mut self, key: &str, default: Option<Vec<Json>>) -> Result<Vec<Json>, PolicyError> {
        match (self.take(key), default) {
            (None, Some(default)) => Ok(default),
            (Some(Json::Array(list)), _) => Ok(list),
            (other, _) => {
                let found = other.map_or("missing".into(), |v| short(&v));
                Err(self.error(format!("{key} {found}"), "a list"))
            }
        }
    }

    pub(super) fn size(
        &mut self,
        key: &str,
        least: usize,
        most: usize,
        default: Option<usize>,
    ) -> Result<usize, PolicyError> {
        let expected = format!("an integer from {least} to {most}");
        let value = match (self.take(key), default) {
            (None, Some(default)) => return Ok(default),
            (None, None) => return Err(self.error(format!("no {key:?}"), &expected)),
            (Some(value), _) => value,
        };
        let size = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (least..=most).contains(n));
        size.ok_or_else(|| self.error(format!("{key} {}", short(&value)), &expected))
    }

    pub(super) fn sizes(&mut self, key: &str) -> Result<Vec<usize>, PolicyError> {
        let list = self.list(key, None)?;
        let sizes: Option<Vec<usize>> =
            list.iter().map(|n| n.as_u64().filter(|n| *n <= MAX_VALUES as u64).map(|n| n as usize)).collect();
        sizes.ok_or_else(|| self.error(format!("{key} {}", short(&Json::Array(list))), "a list of sizes"))
    }

    /// A number as float32; the default if it is absent.
    pub(super) fn number(&mut self, key: &str, default: f32) -> Result<f32, PolicyError> {
        let Some(value) = self.take(key) else { return Ok(default) };
        let number = value.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
        number.ok_or_else(|| self.error(format!("{key} {}", short(&value)), "a finite number"))
    }

    fn finish(&self) -> Result<(), PolicyError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.error(format!("entry {key:?}"), "no entry of that name")),
        }
    }
}

/// JSON for a message.
pub(super) fn short(json: &Json) -> String {
    let text = json.to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(57).collect::<String>() + "..." }
}
