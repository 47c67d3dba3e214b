// Package vet applies the rules of package flowcheck to packages with go vet, which builds their
// dependencies and stores the facts of each package in the build cache.
package vet
