// Package payload checks whether values of a Go type can be stored, so that decoding the output of
// encoding/json restores them without loss.
//
// All arguments and results of durable calls are stored. A field that JSON silently drops
// (unexported, ambiguous) would exist in the first execution of a workflow but not in its replay.
// Such types are rejected with the path to the field: "order.Items[].Done (chan bool)".
package payload
