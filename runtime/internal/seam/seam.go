// Package seam holds the key to what package workflow exports for the runtime's
// own packages. Functions that take a [Gate] cannot be called from elsewhere.
package seam

// Gate is asked for by functions that are not part of the public surface.
type Gate struct{}
