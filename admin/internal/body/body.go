// Package body reads the bodies of requests for all handlers. It applies a size limit and a time
// limit, and refuses ambiguous JSON.
package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
)

// maxDepth is the maximum nesting depth of JSON.
const maxDepth = 500

// Read reads a body within a size limit and a time limit. Errors are problems with the status 413,
// 408 or 400.
func Read(w http.ResponseWriter, r *http.Request, most int64, within time.Duration) ([]byte, error) {
	var body []byte
	err := limited(w, r, most, within, func() (err error) {
		body, err = io.ReadAll(r.Body)
		return err
	})
	return body, err
}

// Form reads a form from a body into r.PostForm, with the limits of Read.
func Form(w http.ResponseWriter, r *http.Request, most int64, within time.Duration) error {
	return limited(w, r, most, within, r.ParseForm)
}

// Within sets the time limit for reading the rest of a body. It is for bodies that the handler has
// not read yet or does not read.
func Within(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // response recorders in tests do not support deadlines
	}
}

func limited(w http.ResponseWriter, r *http.Request, most int64, within time.Duration, read func() error) error {
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(within)) // response recorders in tests do not support deadlines
	r.Body = http.MaxBytesReader(w, r.Body, most)
	err := read()
	if err == nil { // after an error, the deadline remains, because the rest of the body is not read
		_ = deadline.SetReadDeadline(time.Time{})
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		p := admin.NewProblem(admin.CodeInput, fmt.Sprintf("the body has more than %d bytes", long.Limit), "store large data elsewhere and pass a reference")
		p.Status = http.StatusRequestEntityTooLarge
		return p
	case errors.Is(err, os.ErrDeadlineExceeded):
		p := admin.NewProblem(admin.CodeTimeout, fmt.Sprintf("the body did not arrive within %v", within), "send it at once")
		p.Status = http.StatusRequestTimeout
		return p
	case err != nil:
		return &admin.InputError{What: "the body cannot be read: " + err.Error(), Fix: "send it as a whole"}
	}
	return nil
}

// MaxLogin is the maximum size of the body of a login in bytes. The server reads this body without
// authentication.
const MaxLogin = 16 << 10

// Budget limits the total size of the bodies in memory.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget of the given number of bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{}
	b.left.Store(bytes)
	return b
}

// Take reserves memory for the body of a request, but not more than most bytes. It returns a
// function that releases the memory. It returns nil if the budget is too small.
func (b *Budget) Take(r *http.Request, most int64) (back func()) {
	n := r.ContentLength
	if n < 0 || n > most {
		n = most
	}
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return nil
	}
	return func() { b.left.Add(n) }
}

// Check returns an error unless the body is a JSON object with only the given fields. It refuses
// ambiguous names, which are repeated names and names that differ from a field only in case.
func Check(body []byte, fields []string) error { return check(body, fields, false) }

// CheckAny returns an error if a body is not a JSON value, is nested too deeply, or repeats a name
// in an object.
func CheckAny(body []byte) error { return check(body, nil, true) }

func check(body []byte, fields []string, anyValue bool) error {
	bad := func(what, fix string) error { return &admin.InputError{What: "the body " + what, Fix: fix} }
	if !utf8.Valid(body) {
		return bad("is not UTF-8", "send JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var open []*nesting
	for first := true; ; first = false {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && len(open) == 0 {
			return nil
		}
		if err != nil {
			return bad("is not JSON: "+err.Error(), "send one JSON object")
		}
		if len(open) == 0 && (!first || !anyValue && token != json.Delim('{')) {
			return bad("is more than one JSON object, or none", "send one JSON object")
		}
		var in *nesting
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		if in != nil && in.name() {
			if token == json.Delim('}') {
				open = open[:len(open)-1]
				continue
			}
			name, _ := token.(string)
			switch {
			case in.names[name]:
				return bad(fmt.Sprintf("has the name %.80q twice in one object", name), "give it once")
			case !anyValue && len(open) == 1 && !slices.Contains(fields, name):
				return bad(fmt.Sprintf("has an unknown field %.80q", name), "use "+strings.Join(fields, ", "))
			}
			in.names[name], in.value = true, true
			continue
		}
		if in != nil {
			in.value = false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxDepth {
				return bad(fmt.Sprintf("is nested deeper than %d", maxDepth), "send flatter JSON, or text that holds JSON")
			}
			n := &nesting{}
			if token == json.Delim('{') {
				n.names = map[string]bool{}
			}
			open = append(open, n)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// nesting is an open object or array.
type nesting struct {
	names map[string]bool // names in an object so far; nil for an array
	value bool            // whether a value follows the last name
}

// name reports whether a name or the end of an object follows.
func (n *nesting) name() bool { return n.names != nil && !n.value }
