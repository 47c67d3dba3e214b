package admintest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// hostileViews are names that must be treated as text in every interface.
var hostileViews = []string{"a/b", "//", ".", "..", "../../etc", "a//b", "%2F", "a%", "a b", "a+b", "ü/β\u202e", "<script>", "?x=1#y", `"><b>'`, `\`, "a;b,c", "~", "delete", "{name}", strings.Repeat("é", admin.MaxViewName)}

// save saves a filter as a view.
func (s *Scene) save(name, filter string) {
	s.Helper()
	got, err := s.Service.SaveView(s.ctx(), name, admin.NewView{Filter: filter})
	if want := (admin.ViewActed{Name: name, Verb: "save"}); err != nil || got != want {
		s.Errorf("save %q: got %+v, %v, want %+v", name, got, err, want)
	}
}

// views returns the filters of the views by name. It checks that the times of the views are close
// to the present.
func (s *Scene) views() map[string]string {
	s.Helper()
	list, err := s.Service.Views(s.ctx())
	if err != nil {
		s.Fatal(err)
	}
	all := map[string]string{}
	for i, v := range list.Views {
		if i > 0 && list.Views[i-1].Name >= v.Name {
			s.Errorf("view %q comes after %q", v.Name, list.Views[i-1].Name)
		}
		if age := s.Client.Store().Clock().Now().Sub(v.At); age < -time.Second || age > time.Hour {
			s.Errorf("view %q was saved at %v", v.Name, v.At)
		}
		all[v.Name] = v.Filter
	}
	return all
}

// savesViews checks that views can be saved, replaced and deleted.
func savesViews(s *Scene) {
	none, err := s.Service.Views(s.ctx())
	if err != nil {
		s.Fatal(err)
	}
	same(s, "without any", none, admin.ViewList{Views: []admin.View{}})
	const filter = `status:failed tag:"team=blue & <é>" since:24h`
	want := map[string]string{}
	for _, name := range hostileViews {
		s.save(name, filter)
		want[name] = filter
	}
	same(s, "views", s.views(), want)
	s.save("a/b", "failing children") // replaces the filter of an existing view
	want["a/b"] = "failing children"
	s.save("a/b", "failing children") // saves the same view for the second time
	same(s, "views", s.views(), want)
	for _, name := range hostileViews {
		got, err := s.Service.DeleteView(s.ctx(), name, admin.Because{})
		if want := (admin.ViewActed{Name: name, Verb: "delete"}); err != nil || got != want {
			s.Errorf("delete %q: got %+v, %v, want %+v", name, got, err, want)
		}
		delete(want, name)
		same(s, "views", s.views(), want)
		_, err = s.Service.DeleteView(s.ctx(), name, admin.Because{})
		problem(s, "delete again", err, http.StatusNotFound, admin.CodeNotFound)
	}
	ada := s.Direct.As(admin.Principal{Name: "ada <\u202e>", Role: admin.RoleOperator})
	if _, err := ada.SaveView(s.ctx(), "of ada", admin.NewView{Filter: filter}); err != nil {
		s.Fatal(err)
	}
	list, err := s.Service.Views(s.ctx())
	if err != nil || len(list.Views) != 1 || list.Views[0].By != "ada <\u202e>" {
		s.Errorf("got %+v, %v", list, err)
	}
	if _, err := s.Service.DeleteView(s.ctx(), "of ada", admin.Because{}); err != nil {
		s.Error(err)
	}
}

func refusesViews(s *Scene) {
	for what, v := range map[string][2]string{
		"no name":                 {"", "status:failed"},
		"a long name":             {strings.Repeat("é", admin.MaxViewName+1), "status:failed"},
		"a name that is no text":  {"\xff", "status:failed"},
		"a name of two lines":     {"a\nb", "status:failed"},
		"a name with an escape":   {"\x1b[31m", "status:failed"},
		"a name of a space":       {" ", "status:failed"},
		"a slash":                 {"/", "status:failed"},
		"no filter":               {"a", ""},
		"a filter of spaces":      {"a", "  "},
		"an unknown status":       {"a", "status:asleep"},
		"an unknown word":         {"a", "colour:red"},
		"a tag without a value":   {"a", "tag:team"},
		"a time that is none":     {"a", "since:yesterday"},
		"times in no order":       {"a", "since:1h until:2h"},
		"a parent that is no run": {"a", "parent:order-1"},
		"too long a filter":       {"a", "id:" + strings.Repeat("x", 1022)},
	} {
		_, err := s.Service.SaveView(s.ctx(), v[0], admin.NewView{Filter: v[1]})
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
		if p := admin.ProblemOf(err); p != nil && p.Fix == "" {
			s.Errorf("%s: the problem says no fix: %+v", what, p)
		}
	}
	_, err := s.Service.DeleteView(s.ctx(), "", admin.Because{})
	problem(s, "delete no name", err, http.StatusBadRequest, admin.CodeInput)
	for _, name := range []string{"nobody's", "\xff", strings.Repeat("x", 2000)} {
		_, err := s.Service.DeleteView(s.ctx(), name, admin.Because{})
		problem(s, fmt.Sprintf("delete %.20q", name), err, http.StatusNotFound, admin.CodeNotFound)
	}
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err = s.Service.Views(ended)
	problem(s, "views", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	same(s, "views", s.views(), map[string]string{})
}

// boundsViews checks that concurrent saves cannot exceed the maximum number of views, and that the
// saved views can be replaced and deleted.
func boundsViews(s *Scene) {
	const most, more = 100, 4
	var all sync.WaitGroup
	var mu sync.Mutex
	var refused []error
	var names []string
	for n := range most + more {
		name := fmt.Sprintf("view %03d", n)
		names = append(names, name)
		all.Go(func() {
			if _, err := s.Service.SaveView(s.ctx(), name, admin.NewView{Filter: "id:" + fmt.Sprint(n)}); err != nil {
				mu.Lock()
				refused = append(refused, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, err := range refused {
		problem(s, "one too many", err, http.StatusConflict, admin.CodeRefused)
		if p := admin.ProblemOf(err); p != nil && !strings.Contains(p.Fix, "flowctl views") {
			s.Errorf("one too many: the fix is %q", p.Fix)
		}
	}
	kept := s.views()
	if len(refused) != more || len(kept) != most {
		s.Errorf("%d views were refused, and %d are kept: want %d and %d", len(refused), len(kept), more, most)
	}
	for name := range kept {
		if n := slices.Index(names, name); n < 0 || kept[name] != fmt.Sprint("id:", n) {
			s.Errorf("view %q is %q", name, kept[name])
		}
		s.save(name, "id:again") // replaces an existing view
		if _, err := s.Service.DeleteView(s.ctx(), name, admin.Because{}); err != nil {
			s.Error(err)
		}
	}
}
