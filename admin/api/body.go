package api

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/body"
)

// read parses the body of a request. The body must be a JSON object with the fields of the struct
// that into points to. An empty body sets no fields.
func (q *request) read(into any) error { return q.readUpTo(into, q.h.cfg.MaxBody) }

func (q *request) readUpTo(into any, most int64) error {
	data, err := body.Read(q.w, q.r, min(most, q.h.cfg.MaxBody), q.h.cfg.BodyTime)
	if err != nil || len(data) == 0 {
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
	if err := body.Check(data, fieldsOf(reflect.TypeOf(into).Elem())); err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &admin.InputError{What: "the body does not fit: " + err.Error(), Fix: "see its schema in " + Prefix + "openapi.json"}
	}
	return nil
}

// fieldsOf returns the JSON names of the fields of a struct.
func fieldsOf(t reflect.Type) []string {
	var all []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
	}
	return all
}
