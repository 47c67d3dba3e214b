// Package config has what an operator sets.
package config

// Most is the largest order in cents.
var Most = 100_000

// Load takes a new limit.
func Load(cents int) { Most = cents }
