//! Graphs, their nodes, and executable copies. Calls come one after the other, so the order in which nodes came is an order of the graph.
//!
//! A graph within a graph is a copy of its own, with nodes of its own.

use crate::cuda::{Answer, CuError, Handle};
use crate::handles::lock;
use crate::machine::machine;
use crate::op::Op;
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Mutex<Vec<Handle>>,
}

/// A node never changes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    /// Where a kernel's parameters are, as its caller is told.
    pub(crate) pointers: Box<[usize]>,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Op(Op),
    /// The graph that a node is.
    Child(Handle),
}

/// What each node does, as it was when the graph was made executable or as it was changed since.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) nodes: Mutex<Vec<(Handle, Op)>>,
}

impl Graph {
    /// A graph of its own of this work.
    pub(crate) fn of(ops: impl IntoIterator<Item = Op>) -> Result<Self, CuError> {
        let graph = Self::default();
        for op in ops {
            graph.add(op)?;
        }
        Ok(graph)
    }

    pub(crate) fn add(&self, op: Op) -> Result<Handle, CuError> {
        let pointers = match &op {
            Op::Kernel { kernel, params, .. } => {
                let start = params.as_ptr().expose_provenance();
                kernel.layout().iter().map(|(at, _)| start + at).collect()
            }
            _ => Box::default(),
        };
        let work = match op {
            Op::Child(steps) => {
                let child = Self::of(steps.iter().cloned())?;
                Work::Child(machine()?.graphs.add(child))
            }
            op => Work::Op(op),
        };
        let node = machine()?.nodes.add(Node { work, pointers });
        lock(&self.nodes).push(node);
        Ok(node)
    }

    /// What each node does.
    pub(crate) fn ops(&self) -> Result<Vec<(Handle, Op)>, CuError> {
        let nodes = lock(&self.nodes).clone();
        let op = |node| Ok((node, machine()?.nodes.get(node)?.op()?));
        nodes.into_iter().map(op).collect()
    }

    /// As one node of another graph.
    pub(crate) fn as_child(&self) -> Result<Op, CuError> {
        Ok(Op::Child(
            self.ops()?.into_iter().map(|(_, op)| op).collect(),
        ))
    }

    /// Its nodes go with it, and the graphs that they are.
    pub(crate) fn destroy(graph: Handle) -> Answer {
        let nodes = lock(&machine()?.graphs.remove(graph)?.nodes).clone();
        for node in nodes {
            if let Work::Child(child) = machine()?.nodes.remove(node)?.work {
                Self::destroy(child)?;
            }
        }
        Ok(())
    }
}

impl Node {
    fn op(&self) -> Result<Op, CuError> {
        match &self.work {
            Work::Op(op) => Ok(op.clone()),
            Work::Child(graph) => machine()?.graphs.get(*graph)?.as_child(),
        }
    }

    /// `CUgraphNodeType`
    pub(crate) fn kind(&self) -> i32 {
        match &self.work {
            Work::Op(op) => kind(op),
            Work::Child(_) => CHILD,
        }
    }
}

const CHILD: i32 = 4;

/// `CUgraphNodeType`
fn kind(op: &Op) -> i32 {
    match op {
        Op::Kernel { .. } => 0,
        Op::Copy { .. } => 1,
        Op::Fill { .. } => 2,
        Op::Host { .. } => 3,
        Op::Child(_) => CHILD,
        Op::Wait(_) => 6,
        Op::Record(_) => 7,
        Op::Free(_) => 11,
        // Rows of a copy or a fill.
        Op::Steps(steps) => steps.first().map_or(5, kind),
        Op::Prefetch { .. } | Op::Discard { .. } | Op::Nothing => 5,
    }
}

/// Whether a node that does one may come to do the other.
fn fits(was: &Op, becomes: &Op) -> bool {
    match (was, becomes) {
        (Op::Child(was), Op::Child(becomes)) => {
            was.len() == becomes.len() && was.iter().zip(becomes.iter()).all(|(a, b)| fits(a, b))
        }
        _ => kind(was) == kind(becomes),
    }
}

impl Exec {
    /// What a launch does now.
    pub(crate) fn steps(&self) -> Arc<[Op]> {
        lock(&self.nodes).iter().map(|(_, op)| op.clone()).collect()
    }

    /// A node of the graph that this was made from does something else from now on.
    pub(crate) fn set(&self, node: Handle, op: Op) -> Answer {
        let mut nodes = lock(&self.nodes);
        let entry = nodes.iter_mut().find(|(known, _)| *known == node);
        let (_, was) = entry.ok_or(CuError::INVALID_VALUE)?;
        if !fits(was, &op) {
            return Err(CuError::INVALID_VALUE);
        }
        *was = op;
        Ok(())
    }

    /// Does from now on what another graph of the same shape does, or returns a `CUgraphExecUpdateResult` that says why not.
    pub(crate) fn update(&self, ops: Vec<(Handle, Op)>) -> Result<(), u32> {
        let mut nodes = lock(&self.nodes);
        if nodes.len() != ops.len() {
            return Err(2);
        }
        if !nodes
            .iter()
            .zip(&ops)
            .all(|((_, was), (_, op))| fits(was, op))
        {
            return Err(3);
        }
        for ((_, was), (_, op)) in nodes.iter_mut().zip(ops) {
            *was = op;
        }
        Ok(())
    }
}
