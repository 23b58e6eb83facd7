// Package lint holds the project's own rules as tests: who may import whom and why, what may not occur in the tree, how long
// a function may be. `go test ./internal/lint` checks the whole tree.
//
// Each rule is a function from files to findings. TestRulesRefuseWhatIsWrong gives every rule planted mistakes that it has to
// find: a check that cannot fail is none.
package lint
