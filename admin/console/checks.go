package console

import (
	"fmt"

	"github.com/flowgen/flowgen/admin"
)

// checksView shows the results of the doctor and the checks of the store.
type checksView struct {
	Exam    *admin.Exam
	NoExam  *admin.Problem
	Checked *admin.Checked
	Problem *admin.Problem
	May     bool   // the reader may repair
	Why     string // label of the reason; empty if none is asked for
	Reason  string // as typed
	Key     string
	Doctor  string // the commands of flowctl
	Command string
}

// severities maps severities to the statuses with the same color and icon.
var severities = map[string]string{"ok": "completed", "info": "pending", "warn": "warning", "fail": "failed"}

func checksPage(q *request) (*view, error) {
	c, err := q.checks()
	if err != nil {
		return nil, err
	}
	return &view{name: "checks", Title: "Checks", Nav: "checks", Data: c}, nil
}

// checks calls the doctor. If the servers have none, the page is shown without results.
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

// planPage shows the findings, and what a repair would do.
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

// repair repairs the store after the reader has confirmed it by typing the number of repairs. If it
// is refused, the page shows the error and the plan.
func repair(q *request) (string, *view, error) {
	form := q.r.PostForm
	if form.Get("expect") == "" || digits(form.Get("count")) != form.Get("expect") {
		v, err := q.plan(&admin.InputError{What: fmt.Sprintf("%.20q was typed, which is not how many repairs are planned", form.Get("count")), Fix: "read the plan, and type the number of repairs in it"})
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
