package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
)

// maxDepth bounds how deep JSON may be nested.
const maxDepth = 500

// read reads the body of a request, which is JSON of the fields of a struct; an empty one has none of them.
func (q *request) read(into any) error {
	body, err := q.body()
	if err != nil || len(body) == 0 {
		return err
	}
	kind, params, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		p := admin.NewProblem(admin.CodeInput, fmt.Sprintf("the content type is %q", q.r.Header.Get("Content-Type")), "send application/json")
		p.Status = http.StatusUnsupportedMediaType
		return p
	}
	if coding := q.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		p := admin.NewProblem(admin.CodeInput, fmt.Sprintf("the content encoding is %q", coding), "send the JSON as it is")
		p.Status = http.StatusUnsupportedMediaType
		return p
	}
	if err := checkJSON(body, fieldsOf(reflect.TypeOf(into).Elem())); err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &admin.InputError{What: "the body does not fit: " + err.Error(), Fix: "see its schema in " + Prefix + "openapi.json"}
	}
	return nil
}

// body reads a body that is not too long, and does not take too long.
func (q *request) body() ([]byte, error) {
	deadline := http.NewResponseController(q.w)
	_ = deadline.SetReadDeadline(time.Now().Add(q.h.cfg.BodyTime)) // a recorder of a test has none
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, q.h.cfg.MaxBody))
	_ = deadline.SetReadDeadline(time.Time{})
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		p := admin.NewProblem(admin.CodeInput, fmt.Sprintf("the body has more than %d bytes", long.Limit), "store large data elsewhere and pass a reference")
		p.Status = http.StatusRequestEntityTooLarge
		return nil, p
	case errors.Is(err, os.ErrDeadlineExceeded):
		p := admin.NewProblem(admin.CodeTimeout, fmt.Sprintf("the body did not come within %v", q.h.cfg.BodyTime), "send it at once")
		p.Status = http.StatusRequestTimeout
		return nil, p
	case err != nil:
		return nil, &admin.InputError{What: "the body cannot be read: " + err.Error(), Fix: "send it as a whole"}
	}
	return body, nil
}

// fieldsOf returns the names that the fields of a struct have in JSON.
func fieldsOf(t reflect.Type) []string {
	var all []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// checkJSON refuses what is no JSON object of the fields, and what two readers could understand differently: names
// that are given twice, or with other letters.
func checkJSON(body []byte, fields []string) error {
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
			return bad("is no JSON: "+err.Error(), "send one JSON object")
		}
		if len(open) == 0 && (!first || token != json.Delim('{')) {
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
			case len(open) == 1 && !slices.Contains(fields, name):
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

// nesting is an object or array that has begun.
type nesting struct {
	names map[string]bool // of an object, so far; nil: it is an array
	value bool            // the value of a name follows
}

// name reports whether a name follows, or the end of an object.
func (n *nesting) name() bool { return n.names != nil && !n.value }
