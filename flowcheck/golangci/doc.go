// Package golangci provides the rules of package flowcheck as a linter of golangci-lint with the
// name flowgen.
//
// It is a module plugin in a separate module, so that users of flowgen without golangci-lint do not
// depend on it. The page docs/use/rules.md lists the files that a project needs.
package golangci
