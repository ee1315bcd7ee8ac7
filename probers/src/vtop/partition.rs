// SPDX-License-Identifier: GPL-2.0-only
//! Sets of vCPUs that do not overlap, as a union-find forest.

use std::collections::BTreeMap;

/// A partition of `0..n`.
#[derive(Clone, Debug)]
pub struct Partition {
    parent: Vec<usize>,
}

impl Partition {
    /// Each by itself.
    pub fn singles(n: usize) -> Self {
        Self { parent: (0..n).collect() }
    }

    /// The representative of the group of `item`.
    pub fn root(&self, mut item: usize) -> usize {
        while self.parent[item] != item {
            item = self.parent[item];
        }
        item
    }

    pub fn together(&self, a: usize, b: usize) -> bool {
        self.root(a) == self.root(b)
    }

    /// Join the groups of both. The lower root stays one, so that results do not depend on order.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
        for mut item in [a, b] {
            while self.parent[item] != a.min(b) {
                item = std::mem::replace(&mut self.parent[item], a.min(b));
            }
        }
    }

    /// The root of each, in order: equal where they are together.
    pub fn roots(&self) -> Vec<usize> {
        (0..self.parent.len()).map(|item| self.root(item)).collect()
    }

    /// All groups with their members, both ascending.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for item in 0..self.parent.len() {
            groups.entry(self.root(item)).or_default().push(item);
        }
        groups.into_values().collect()
    }
}
