// Package docs contains tests of the documentation pages. Quoted code must exist, mentioned names
// must be declared, and links must have targets.
package docs
