// Package golangci makes the rules of package flowcheck a linter of golangci-lint, under the name flowgen.
//
// It is a module plugin, and a module of its own, so that who uses flowgen without
// golangci-lint does not depend on it. The page of the rules, docs/use/rules.md, has the files that a project needs.
package golangci
