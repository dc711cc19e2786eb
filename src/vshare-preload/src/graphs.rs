//! What executable graphs name: the union over their nodes, by the graph's handle.
//!
//! Addresses are kept as they stand in the nodes, and mean whatever lies there when the graph is launched. What is not known of a
//! graph (other kinds of nodes, bodies of conditional ones) is faulted in, as all is of graphs that are not known at all.

use crate::cuda::{CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};
use crate::driver::nodes::{self, Kernel};
use crate::lock::Lock;
use crate::touches::{self, Access};
use crate::{captures, driver};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vshare_core::history::mix;

/// Most addresses of one graph that are worth the look at each launch.
const MOST: usize = 65_536;
/// Most nodes that are read, and most words that are kept of them, the same one in several nodes.
const MOST_NODES: usize = 65_536;
const MOST_WORDS: usize = 4 * MOST;
/// Graphs within graphs are read so deep.
const DEEPEST: usize = 32;

/// Each behind a lock of its own: no program launches an executable graph while it changes it, so nobody waits there.
static EXECS: Lock<BTreeMap<CUgraphExec, Arc<Lock<Exec>>>> = Lock::new(BTreeMap::new());

/// Words that may be addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    sure: Vec<u64>,
    /// From tables: see [`Access::Table`].
    maybe: Vec<u64>,
}

/// What is known of an executable graph.
#[derive(Debug)]
struct Exec {
    /// By the node that the program would change it with; null: with none.
    nodes: Vec<(CUgraphNode, Names)>,
    words: usize,
    signature: u64,
    /// The union, each address once, since the last change. Made when it is needed.
    all: Option<Arc<Names>>,
}

/// A graph has become executable.
pub(crate) fn instantiated(exec: CUgraphExec, graph: CUgraph) {
    match outside_captures(|| read(graph)) {
        Some(known) => keep(exec, known),
        // The handle may have been another's.
        None => forget(exec),
    }
}

/// An executable graph is about to go.
pub(crate) fn forget(exec: CUgraphExec) {
    let gone = EXECS.lock().remove(&exec);
    drop(gone);
}

/// An executable graph does from now on what `graph` does; or, if that failed, perhaps a part of it.
pub(crate) fn updated(exec: CUgraphExec, graph: CUgraph, whole: bool) {
    let Some(mut new) = outside_captures(|| read(graph)) else {
        return forget(exec);
    };
    // Nodes are named as in the graph that it was made from, and not as in this one.
    for (node, _) in &mut new.nodes {
        *node = CUgraphNode::NULL;
    }
    if whole {
        return keep(exec, new);
    }
    for (node, names) in new.nodes {
        set(exec, node, names);
    }
}

/// A node of an executable graph names something else from now on.
pub(crate) fn set(exec: CUgraphExec, node: CUgraphNode, names: Names) {
    let Some(known) = find(exec) else {
        return;
    };
    let mut known = known.lock();
    known.words += names.len();
    let mine = |n: &&mut (CUgraphNode, Names)| n.0 == node && node != CUgraphNode::NULL;
    match known.nodes.iter_mut().find(mine) {
        Some((_, place)) => {
            let was = std::mem::replace(place, names);
            known.words -= was.len();
        }
        None => known.nodes.push((node, names)),
    }
    known.all = None;
    let too_many = known.words > MOST_WORDS;
    drop(known);
    if too_many {
        forget(exec);
    }
}

/// Shows `visit` what is known of what a graph names, in its nodes' order.
pub(crate) fn visit(exec: CUgraphExec, visit: &mut dyn FnMut(u64, Access)) {
    let Some(known) = find(exec) else {
        return;
    };
    let all = known.lock().all();
    all.sure.iter().for_each(|&w| visit(w, Access::Written));
    all.maybe.iter().for_each(|&w| visit(w, Access::Table));
}

/// What a graph does, as a number: the same for graphs of the same kernels. `None`: it is not known.
pub(crate) fn signature(exec: CUgraphExec) -> Option<u64> {
    find(exec).map(|known| known.lock().signature)
}

/// Runs `f`, which asks the driver about nodes and kernels, so that no capture of the program's is disturbed.
pub(crate) fn outside_captures<T>(f: impl FnOnce() -> T) -> T {
    if captures::any() {
        driver::outside_captures(f)
    } else {
        f()
    }
}

fn find(exec: CUgraphExec) -> Option<Arc<Lock<Exec>>> {
    EXECS.lock().get(&exec).cloned()
}

fn keep(exec: CUgraphExec, known: Exec) {
    let was = EXECS.lock().insert(exec, Arc::new(Lock::new(known)));
    drop(was);
}

impl Exec {
    fn all(&mut self) -> Arc<Names> {
        if let Some(all) = &self.all {
            return Arc::clone(all);
        }
        let mut all = Names::default();
        let mut seen = BTreeSet::new();
        for word in self.nodes.iter().flat_map(|(_, names)| &names.sure) {
            if seen.insert(*word) {
                all.sure.push(*word);
            }
        }
        for word in self.nodes.iter().flat_map(|(_, names)| &names.maybe) {
            if seen.insert(*word) {
                all.maybe.push(*word);
            }
        }
        if seen.len() > MOST {
            all = Names::default();
        }
        let all = Arc::new(all);
        self.all = Some(Arc::clone(&all));
        all
    }
}

impl Names {
    fn len(&self) -> usize {
        self.sure.len() + self.maybe.len()
    }

    fn add(&mut self, word: u64, access: Access) {
        match access {
            Access::Table => self.maybe.push(word),
            Access::Written | Access::Read => self.sure.push(word),
        }
    }

    /// Of a kernel.
    pub(crate) fn of_kernel(node: Kernel) -> Self {
        let mut names = Self::default();
        names.add_kernel(node);
        names
    }

    fn add_kernel(&mut self, node: Kernel) {
        let Kernel {
            function,
            params,
            extra,
        } = node;
        touches::visit_kernel(function, params, extra, &mut |word, access| {
            self.add(word, access);
        });
    }

    /// Of a copy. Addresses that its memory types leave unused are none.
    pub(crate) fn of_copy(copy: &CUDA_MEMCPY3D) -> Self {
        Self {
            sure: vec![copy.dstDevice.0, copy.srcDevice.0],
            maybe: Vec::new(),
        }
    }

    /// Of a fill.
    pub(crate) fn of_fill(fill: &CUDA_MEMSET_NODE_PARAMS) -> Self {
        Self {
            sure: vec![fill.dst.0],
            maybe: Vec::new(),
        }
    }

    /// Of a graph, as one node of another; `None`: of more than is worth it.
    pub(crate) fn of_graph(graph: CUgraph) -> Option<Self> {
        let mut names = Self::default();
        Reader::new().add_graph(graph, &mut names, 0)?;
        Some(names)
    }
}

fn read(graph: CUgraph) -> Option<Exec> {
    let mut reader = Reader::new();
    let found = nodes::of(graph, MOST_NODES).ok()?;
    reader.begin(found.len())?;
    let mut nodes = Vec::new();
    for node in found {
        let mut names = Names::default();
        reader.add_node(node, &mut names, 0)?;
        if names.len() > 0 {
            nodes.push((node, names));
        }
    }
    Some(Exec {
        nodes,
        words: MOST_WORDS - reader.words_left,
        signature: reader.signature,
        all: None,
    })
}

/// Reads a graph; `None` from any of its functions: there is more than is worth it.
struct Reader {
    nodes_left: usize,
    words_left: usize,
    signature: u64,
}

impl Reader {
    fn new() -> Self {
        Self {
            nodes_left: MOST_NODES,
            words_left: MOST_WORDS,
            signature: 6,
        }
    }

    fn begin(&mut self, nodes: usize) -> Option<()> {
        self.nodes_left = self.nodes_left.checked_sub(nodes)?;
        self.signature = mix(self.signature, nodes as u64);
        Some(())
    }

    fn add_graph(&mut self, graph: CUgraph, names: &mut Names, depth: usize) -> Option<()> {
        let Ok(nodes) = nodes::of(graph, MOST_NODES) else {
            return Some(());
        };
        self.begin(nodes.len())?;
        for node in nodes {
            self.add_node(node, names, depth)?;
        }
        Some(())
    }

    fn add_node(&mut self, node: CUgraphNode, names: &mut Names, depth: usize) -> Option<()> {
        let before = names.len();
        match nodes::kind(node) {
            Ok(nodes::KERNEL) => {
                if let Ok(kernel) = nodes::kernel(node) {
                    self.signature = mix(self.signature, kernel.function.0 as u64);
                    names.add_kernel(kernel);
                }
            }
            Ok(nodes::COPY) => {
                if let Ok(copy) = nodes::copy(node) {
                    names.sure.append(&mut Names::of_copy(&copy).sure);
                }
            }
            Ok(nodes::FILL) => {
                if let Ok(fill) = nodes::fill(node) {
                    names.sure.push(fill.dst.0);
                }
            }
            Ok(nodes::CHILD) if depth < DEEPEST => {
                if let Ok(child) = nodes::child(node) {
                    return self.add_graph(child, names, depth + 1);
                }
            }
            // Memory that a graph takes is the driver's; the rest names little or nothing, or cannot be read.
            _ => {}
        }
        self.words_left = self.words_left.checked_sub(names.len() - before)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0x7f00_0000_0000;

    fn names(sure: &[u64], maybe: &[u64]) -> Names {
        Names {
            sure: sure.to_vec(),
            maybe: maybe.to_vec(),
        }
    }

    fn exec(number: usize, nodes: Vec<(CUgraphNode, Names)>) -> CUgraphExec {
        let exec = CUgraphExec(number);
        let words = nodes.iter().map(|(_, names)| names.len()).sum();
        let known = Exec {
            nodes,
            words,
            signature: 1,
            all: None,
        };
        keep(exec, known);
        exec
    }

    fn seen(exec: CUgraphExec) -> (Vec<u64>, Vec<u64>) {
        let (mut sure, mut maybe) = (Vec::new(), Vec::new());
        visit(exec, &mut |word, access| match access {
            Access::Table => maybe.push(word),
            Access::Written | Access::Read => sure.push(word),
        });
        (sure, maybe)
    }

    #[test]
    fn an_address_is_shown_once_and_as_sure_if_any_node_is() {
        let (first, second) = (CUgraphNode(1), CUgraphNode(2));
        let nodes = vec![
            (first, names(&[A, A + 1], &[A + 2, A + 3])),
            (second, names(&[A + 1, A + 2], &[A + 3])),
        ];
        let exec = exec(0x9001, nodes);
        assert_eq!(seen(exec), (vec![A, A + 1, A + 2], vec![A + 3]));
    }

    #[test]
    fn a_node_that_is_set_names_what_is_new_and_others_what_they_named() {
        let (first, second) = (CUgraphNode(1), CUgraphNode(2));
        let nodes = vec![(first, names(&[A], &[])), (second, names(&[A + 1], &[]))];
        let exec = exec(0x9002, nodes);
        assert_eq!(seen(exec).0, [A, A + 1]);
        set(exec, second, names(&[A + 2], &[]));
        assert_eq!(seen(exec).0, [A, A + 2]);
    }

    #[test]
    fn a_node_that_is_not_known_takes_nothing_away() {
        let exec = exec(0x9003, vec![(CUgraphNode::NULL, names(&[A], &[]))]);
        set(exec, CUgraphNode(7), names(&[A + 1], &[]));
        set(exec, CUgraphNode::NULL, names(&[A + 2], &[]));
        assert_eq!(seen(exec).0, [A, A + 1, A + 2]);
        set(exec, CUgraphNode(7), names(&[A + 3], &[]));
        assert_eq!(seen(exec).0, [A, A + 3, A + 2]);
    }

    #[test]
    fn a_graph_that_has_gone_or_grown_beyond_measure_names_nothing() {
        let exec = exec(0x9004, vec![(CUgraphNode(1), names(&[A], &[]))]);
        let many: Vec<u64> = (0..=MOST as u64).map(|i| A + i).collect();
        set(exec, CUgraphNode(2), names(&many, &[]));
        assert_eq!(seen(exec), (vec![], vec![]));
        set(exec, CUgraphNode(2), names(&[], &[]));
        assert_eq!(seen(exec).0, [A]);
        for node in 2..7 {
            set(exec, CUgraphNode(node), names(&many, &[]));
        }
        assert_eq!(signature(exec), None);
        keep(
            exec,
            Exec {
                nodes: vec![],
                words: 0,
                signature: 5,
                all: None,
            },
        );
        forget(exec);
        assert_eq!(signature(exec), None);
    }
}
