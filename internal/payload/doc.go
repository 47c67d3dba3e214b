// Package payload decides whether a Go type survives being stored: whether what
// encoding/json writes of a value can be read back without losing anything.
//
// Everything that crosses a durable call is stored, so a field that JSON drops
// without a word (unexported, ambiguous) would be there in the first execution
// of a workflow and gone in its replay. Such types are refused, with the path
// to the culprit: "order.Items[].Done (chan bool)".
package payload
