// Package vet runs the rules of package flowcheck over packages, by go vet: that builds
// what they depend on, and keeps what was found of each package in the build cache.
package vet
