package console

import (
	"net/url"

	"github.com/flowgen/flowgen/admin"
)

// failuresView lists groups of runs to which the same has happened.
type failuresView struct {
	Groups  []admin.FailureGroup
	Kinds   []choice
	Partial bool
	Older   string
	Command string
}

func failuresPage(q *request) (*view, error) {
	f := admin.FailureFilter{Cursor: q.query.Get("cursor"), Open: q.query.Get("all") == "", Limit: runsPerPage}
	kind := q.query.Get("kind")
	l := &failuresView{Command: q.h.command("failures")}
	if kind != "" {
		f.Kinds = []string{kind}
		l.Command += " --" + kind
	}
	page, err := q.service.Failures(q.ctx(), f)
	if err != nil {
		return nil, err
	}
	l.Groups, l.Partial = page.Groups, page.Partial
	at := func(kind, cursor string) string {
		values := url.Values{}
		if kind != "" {
			values.Set("kind", kind)
		}
		if cursor != "" {
			values.Set("cursor", cursor)
		}
		if !f.Open {
			values.Set("all", "true")
		}
		return q.h.cfg.Prefix + "failures?" + values.Encode()
	}
	l.Kinds = []choice{{"All", at("", ""), kind == ""}}
	for _, k := range admin.FailureKinds() {
		l.Kinds = append(l.Kinds, choice{k, at(k, ""), k == kind})
	}
	if page.Cursor != "" {
		l.Older = at(kind, page.Cursor)
	}
	return &view{name: "failures", Title: "Failures", Nav: "failures", Live: true, Data: l}, nil
}
