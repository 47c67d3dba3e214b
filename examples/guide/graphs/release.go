// Package graphs contains the workflows that docs/use/graphs.md quotes. One graph has steps that
// are methods of a struct, and the other is built from data.
package graphs

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/limit"
)

// Machines limits the number of concurrent builds in all runs.
var Machines = limit.New("graphs.machines", limit.Config{AtOnce: 4})

// Binary is a program that was built for a platform.
type Binary struct {
	Platform string `json:"platform"`
	Hash     string `json:"hash"`
}

// Farm builds programs.
type Farm struct {
	Build func(ctx context.Context, version, platform string) (hash string, err error)
	Scan  func(ctx context.Context, b []Binary) (findings int, err error)
}

// release builds a version for each platform and publishes the binaries.
//
//flow:dag
type release struct {
	Version string `json:"version"` // Exported fields are the input.
	Urgent  bool   `json:"urgent"`
	farm    *Farm  // Unexported fields are parameters of Register.
}

//flow:step
func (r *release) platforms(ctx context.Context) ([]string, error) {
	return []string{"linux", "darwin"}, nil
}

//flow:step each=platforms uses=Machines
func (r *release) build(ctx context.Context, platforms string) (Binary, error) {
	hash, err := r.farm.Build(ctx, r.Version, platforms)
	return Binary{platforms, hash}, err
}

//flow:step if=careful onfail=skip
func (r *release) scan(ctx context.Context, build []Binary) (int, error) {
	return r.farm.Scan(ctx, build)
}

// careful decides whether the binaries are scanned.
func (r *release) careful(build []Binary) bool { return !r.Urgent && len(build) > 0 }

//flow:step
func (r *release) publish(ctx context.Context, build []Binary, scan *int) (string, error) {
	if scan == nil { // The scan was skipped or has failed.
		return fmt.Sprintf("%s: %d binaries", r.Version, len(build)), nil
	}
	return fmt.Sprintf("%s: %d binaries with %d findings", r.Version, len(build), *scan), nil
}
