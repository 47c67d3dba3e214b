package console

import (
	"fmt"

	"github.com/flowgen/flowgen/admin"
)

// checksView shows the results of the doctor and of the checks of the store.
type checksView struct {
	Exam    *admin.Exam
	NoExam  *admin.Problem
	Checked *admin.Checked
	Problem *admin.Problem
	May     bool   // whether the reader may repair
	Why     string // label of the field for the reason; empty if the form has no such field
	Reason  string // reason as typed
	Key     string
	Doctor  string // flowctl commands
	Command string
}

// severities maps each severity to the status that is drawn with the same color and icon.
var severities = map[string]string{"ok": "completed", "info": "pending", "warn": "warning", "fail": "failed"}

func checksPage(q *request) (*view, error) {
	c, err := q.checks()
	if err != nil {
		return nil, err
	}
	return &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}, nil
}

// checks returns the results of the doctor. If this kind of store has no doctor, the view has no
// results.
func (q *request) checks() (*checksView, error) {
	c := &checksView{Key: newKey(), Why: whyInJournal, Reason: because(q.r.PostForm), May: q.who.Role.Allows(admin.RoleAdmin), Doctor: q.h.command("doctor"), Command: q.h.command("fsck")}
	exam, err := q.service.Examine(q.ctx())
	if p := admin.ProblemOf(err); p != nil {
		if p.Code == admin.CodeForbidden {
			return nil, err
		}
		c.NoExam = p
		return c, nil
	}
	c.Exam = &exam
	return c, nil
}

// planPage shows the findings and the changes that a repair would make.
func planPage(q *request) (*view, error) { return q.plan(nil) }

func (q *request) plan(wrong error) (*view, error) {
	c, err := q.checks()
	if err != nil {
		return nil, err
	}
	v := &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}
	checked, err := q.service.Check(q.ctx())
	if err == nil {
		c.Checked = &checked
	}
	if wrong == nil {
		wrong = err
	}
	if wrong != nil {
		c.Problem = admin.ProblemOf(wrong)
		v.Status = c.Problem.Status
	}
	return v, nil
}

// repair repairs the store. The reader must confirm the repair by typing the number of repairs. If
// the repair is refused, the page shows the error and the plan.
func repair(q *request) (string, *view, error) {
	form := q.r.PostForm
	if form.Get("expect") == "" || digits(form.Get("count")) != form.Get("expect") {
		v, err := q.plan(&admin.InputError{What: fmt.Sprintf("%.20q was typed, which is not the number of planned repairs", form.Get("count")), Fix: "read the plan, and type its number of repairs"})
		return "", v, err
	}
	to, v, err := q.h.once.do(q.who.Name, form.Get("key"), "repair", func() (string, *view, error) {
		c, err := q.checks()
		if err != nil {
			return "", nil, err
		}
		done, err := q.service.Repair(q.ctx(), admin.Because{Reason: because(form)})
		if err != nil {
			return "", nil, err
		}
		c.Checked, c.Command = &done, q.h.command("fsck --repair")
		return "", &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}, nil
	})
	if p := admin.ProblemOf(err); p != nil && p.Code != admin.CodeForbidden {
		v, err = q.plan(err)
		return "", v, err
	}
	return to, v, err
}
