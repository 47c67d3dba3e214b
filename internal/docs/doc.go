// Package docs contains tests of the documentation pages: quoted code compiles, mentioned names
// exist, and links have targets.
package docs
