package console

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// savedView is a named filter.
type savedView struct {
	Name, Line string
	Named      bool   // whether the URL of the view contains the name
	By         string // name of the principal that saved the view for all readers
	Current    bool
}

// views lists the built-in views.
var views = []savedView{
	{Name: "All"}, {Name: "Running", Line: "status:running,sleeping,waiting"}, {Name: "Failed today", Line: "status:failed since:24h"},
	{Name: "Failing", Line: "failing children"}, {Name: "Blocked", Line: "status:blocked children"},
}

// viewTabs are the views above a list of runs.
type viewTabs struct {
	Title     string // title of the page
	Everybody []savedView
	Shared    []savedView // views in the store, and a view that exists only in the URL of the page
	More      []savedView // further views in the store, which are in a menu
	Save      string      // URL of the form that saves this view; empty if the reader may not save it
	Delete    string      // URL of the form that deletes this view; empty if the reader may not delete it
	Problem   *admin.Problem
}

// sharedTabs is the number of shared views that are shown as tabs. A menu contains the others.
const sharedTabs = 8

// viewTabs returns the views above the list of runs that a filter selects. It reads stored views
// only if the whole page is drawn. Updates of the page do not change the views.
func (q *request) viewTabs(line string) *viewTabs {
	t := &viewTabs{Title: "Runs"}
	if line != "" {
		t.Title += ": " + line
	}
	given := q.query.Get("view")
	name := cut(admin.MaxViewName, given)
	for _, v := range views {
		if v.Current = v.Line == line && name == ""; v.Current && line != "" {
			t.Title = "Runs: " + v.Name
		}
		t.Everybody = append(t.Everybody, v)
	}
	if name != "" {
		t.Title = "Runs: " + name
	}
	if partOf(q.ctx()) == mainPart {
		return t
	}
	kept := t.readShared(q, line, given)
	if name != "" && !kept {
		t.Shared = append(t.Shared, savedView{Name: name, Line: line, Named: true, Current: true})
	}
	return t
}

// readShared adds the stored views, and reports whether the view of the page is one of them.
func (t *viewTabs) readShared(q *request, line, given string) (found bool) {
	if q.who.Owner != "" { // filters may contain data of other owners
		return false
	}
	list, err := q.service.Views(q.ctx())
	if p := admin.ProblemOf(err); p != nil {
		if p.Code != admin.CodeUnsupported {
			t.Problem = p
		}
		return false
	}
	for _, v := range list.Views {
		tab := savedView{Name: v.Name, Line: oneLine(v.Filter), Named: true, By: v.By}
		tab.Current = tab.Name == given && tab.Line == line
		if found = found || tab.Current; len(t.Shared) < sharedTabs || tab.Current {
			t.Shared = append(t.Shared, tab)
		} else {
			t.More = append(t.More, tab)
		}
	}
	if !q.who.Role.Allows(admin.RoleOperator) || line == "" {
		return found
	}
	if found {
		t.Delete = viewLink(q, "delete", url.Values{"view": {given}})
	} else {
		t.Save = viewLink(q, "save", url.Values{"q": {line}, "view": {cut(admin.MaxViewName, given)}})
	}
	return found
}

func viewLink(q *request, verb string, about url.Values) string {
	return link(q.h.cfg.Prefix, "views", verb) + "?" + about.Encode()
}

// shared returns the stored views. It returns an error if the reader may not change them.
func (q *request) shared(to string) ([]admin.View, error) {
	if err := q.who.Need(admin.RoleOperator, to); err != nil {
		return nil, err
	}
	list, err := q.service.Views(q.ctx())
	return list.Views, err
}

// saveViewForm returns the form that saves a filter as a view.
func saveViewForm(q *request) (*ask, error) {
	if _, err := q.shared("to save shared views"); err != nil {
		return nil, err
	}
	line := oneLine(q.query.Get("q"))
	return &ask{
		Title: "Save a view for all", Will: "All users of the console of this store see it above the list of runs. An existing view of that name is replaced.", Button: "Save",
		Command: q.h.command("views", "save"), Back: link(q.h.cfg.Prefix, "runs") + "?" + url.Values{"q": {line}}.Encode(),
		Fields: []field{
			{Name: "name", Label: "Name", Value: cut(admin.MaxViewName, q.query.Get("view")), Required: true, Hint: fmt.Sprintf("up to %d characters", admin.MaxViewName), Flag: "-"},
			{Name: "filter", Label: "Filter", Value: line, Required: true, Hint: "times such as since:24h are relative to the time of viewing", Flag: "-"},
			whyField(),
		},
	}, nil
}

func saveViewPage(q *request) (*view, error) {
	a, err := saveViewForm(q)
	if err != nil {
		return nil, err
	}
	return q.asking("runs", a), nil
}

func saveView(q *request) (string, *view, error) {
	a, err := saveViewForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("runs", a, func(form url.Values) (string, error) {
		name, line := strings.TrimSpace(form.Get("name")), oneLine(form.Get("filter"))
		_, err := q.service.SaveView(q.ctx(), name, admin.NewView{Filter: line, Reason: because(form)})
		return link(q.h.cfg.Prefix, "runs") + "?" + url.Values{"q": {line}, "view": {name}, "did": {"view-save"}}.Encode(), err
	})
}

// deleteViewForm returns the form that deletes a view, and the filter of the view. The filter is
// empty if the view does not exist.
func deleteViewForm(q *request) (*ask, string, error) {
	kept, err := q.shared("to delete shared views")
	if err != nil {
		return nil, "", err
	}
	name, line := q.query.Get("view"), ""
	for _, v := range kept {
		if v.Name == name {
			line = oneLine(v.Filter)
		}
	}
	return &ask{
		Title: "Delete view " + cut(60, name), Will: "It is removed from the list above the runs. Its address still works: its filter is " + cut(300, line), Danger: true, Button: "Delete",
		Command: q.h.command("views delete", shell(name)), Back: link(q.h.cfg.Prefix, "runs") + "?" + url.Values{"q": {line}, "view": {name}}.Encode(), Fields: []field{whyField()},
	}, line, nil
}

func deleteViewPage(q *request) (*view, error) {
	a, line, err := deleteViewForm(q)
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no shared view %.80q", q.query.Get("view")), "it was deleted or renamed: go to the list of runs")
	}
	return q.asking("runs", a), nil
}

func deleteView(q *request) (string, *view, error) {
	a, line, err := deleteViewForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("runs", a, func(form url.Values) (string, error) {
		_, err := q.service.DeleteView(q.ctx(), q.query.Get("view"), admin.Because{Reason: because(form)})
		return link(q.h.cfg.Prefix, "runs") + "?" + url.Values{"q": {line}, "did": {"view-delete"}}.Encode(), err
	})
}
