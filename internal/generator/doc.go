// Package generator implements the flowgen command without its flags: it loads packages, builds
// their models, and updates each flow_gen.go or reports which files are stale.
package generator
