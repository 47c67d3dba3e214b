package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Default limits for the stored form of a payload, in bytes: an argument list, result, message or
// recorded value.
const (
	DefaultMaxPayload  = 2 << 20   // larger payloads are refused
	DefaultWarnPayload = 256 << 10 // larger payloads are logged
)

// PayloadError reports that a value cannot be stored or read back unchanged: it is too large,
// cannot be encoded or decoded, or contains a string that is not UTF-8, whose position is in Err.
// Nothing was truncated, and nothing was written.
type PayloadError struct {
	What  string // for example "input of step orders.charge"
	Size  int    // in bytes; 0 if the value could not be encoded
	Limit int    // 0 if size is not the reason
	Err   error  // from encoding or decoding; nil if size is the reason
}

// Error returns a text with the payload, and the size and limit if they are the reason.
func (e *PayloadError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s has %d bytes, the limit is %d: store large data elsewhere and pass a reference, or raise ClientConfig.MaxPayload", e.What, e.Size, e.Limit)
}

// Unwrap returns the error of the encoder or decoder.
func (e *PayloadError) Unwrap() error { return e.Err }

// MarshalFailure returns the stored form of e.
func (e *PayloadError) MarshalFailure() *event.Failure {
	data, _ := json.Marshal(storedPayloadError{e.What, e.Size, e.Limit}) // strings and numbers always encode
	f := &event.Failure{Code: event.CodePayload, Type: wirePayloadError, Message: e.Error(), Data: data}
	if e.Err != nil {
		f.Causes = []*event.Failure{{Message: e.Err.Error()}}
	}
	return f
}

type storedPayloadError struct {
	What  string `json:"what"`
	Size  int    `json:"size"`
	Limit int    `json:"limit"`
}

// UnmarshalFailure restores e from the result of MarshalFailure.
func (e *PayloadError) UnmarshalFailure(f *event.Failure) error {
	var s storedPayloadError
	if err := json.Unmarshal(f.Data, &s); err != nil {
		return err
	}
	*e = PayloadError{What: s.What, Size: s.Size, Limit: s.Limit}
	if len(f.Causes) > 0 {
		e.Err = errors.New(f.Causes[0].Message)
	}
	return nil
}

type limits struct {
	max, warn int
	logger    *slog.Logger
}

// encode returns the stored form of v. what names it in errors.
func (l *limits) encode(what string, v any) ([]byte, error) {
	data, err := marshal(what, v)
	if err != nil {
		return nil, err
	}
	return data, l.check(what, len(data), false)
}

// encode returns the stored form of a value passed by workflow code. It logs no warning about its
// size during a replay.
func (ctx Context) encode(what string, v any) ([]byte, error) {
	data, err := marshal(what, v)
	if err != nil {
		return nil, err
	}
	return data, ctx.env.limits.check(what, len(data), ctx.branch().Replaying())
}

// marshal encodes v as JSON. It returns an error if the user's MarshalJSON panics or if a string is
// not UTF-8.
func marshal(what string, v any) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			data, err = nil, &PayloadError{What: what, Err: fmt.Errorf("encoding panicked: %v", r)}
		}
	}()
	if data, err = json.Marshal(v); err == nil {
		err = checkWritten(v, data)
	}
	if err != nil {
		return nil, &PayloadError{What: what, Err: err}
	}
	return data, nil
}

// encodePayload implements [engine.EncodePayload].
func encodePayload(kind, name string, v any) ([]byte, error) {
	data, err := marshal(kind, v)
	return data, about(err, name)
}

// decodePayload implements [engine.DecodePayload].
func decodePayload(kind, name string, data []byte, into any) error {
	return about(decode(kind, data, into), name)
}

// about appends the name to the subject of an error, if there is one. Callers thereby avoid
// building the full name when there is no error.
func about(err error, name string) error {
	if p, ok := errors.AsType[*PayloadError](err); ok {
		p.What += name
	}
	return err
}

func (l *limits) check(what string, size int, quiet bool) error {
	if size > l.max {
		return &PayloadError{What: what, Size: size, Limit: l.max}
	}
	if size > l.warn && !quiet {
		l.logger.Warn("large payload", "what", what, "bytes", size, "warn", l.warn, "max", l.max)
	}
	return nil
}

// decode decodes a stored value. It returns an error if the user's UnmarshalJSON panics or if a
// string cannot represent the stored text.
func decode(what string, data []byte, into any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PayloadError{What: what, Err: fmt.Errorf("decoding panicked: %v", r)}
		}
	}()
	if len(data) == 0 {
		return nil
	}
	if err = json.Unmarshal(data, into); err == nil {
		err = checkRead(data)
	}
	if err != nil {
		return &PayloadError{What: what, Err: err}
	}
	return nil
}

var _ failure.Unmarshaler = (*PayloadError)(nil)
