// Package lint holds the project's own rules as tests: who may import whom and why, what may not occur in the tree, how long
// a function may be. It has no code of its own; `go test ./internal/lint` checks the whole tree.
//
// A rule is a function from the tree to findings, and comes with a planted mistake that it has to find and a near miss that it
// must leave alone (TestRulesCatch): a check that cannot fail is none. Exceptions stand in a table next to their rule, each with
// its reason.
package lint
