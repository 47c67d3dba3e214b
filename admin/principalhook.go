package admin

import "context"

// Hooks is part of Service. Who may not act sees no tokens: a token is enough to act.
func (l *limited) Hooks(ctx context.Context, f HookFilter) (HookPage, error) {
	var page HookPage
	err := l.p.Need(RoleViewer, "to see hooks")
	switch {
	case err != nil:
		return page, err
	case f.Run == "" && l.p.Owner != "":
		page, err = hooksOfRuns(ctx, f, l.Runs, func(ctx context.Context, run string) ([]Hook, error) {
			of, err := l.under.Hooks(ctx, HookFilter{Run: run})
			return of.Hooks, err
		})
	default:
		if f.Run != "" {
			if f.Run, err = l.own(ctx, f.Run); err != nil {
				return page, err
			}
		}
		page, err = l.under.Hooks(ctx, f)
	}
	for i := range page.Hooks {
		l.hideToken(&page.Hooks[i])
	}
	return page, err
}

func (l *limited) hideToken(h *Hook) {
	if !l.p.Role.Allows(RoleOperator) {
		h.Token = ""
	}
}

// Hook is part of Service. A hook of another owner's run looks like one that is not there.
func (l *limited) Hook(ctx context.Context, token string) (Hook, error) {
	if err := l.p.Need(RoleViewer, "to see hooks"); err != nil {
		return Hook{}, err
	}
	h, err := l.under.Hook(ctx, token)
	if err == nil && l.p.Owner != "" {
		_, err = l.find(ctx, h.Run)
	}
	if l.p.Owner != "" && ProblemOf(err) != nil && ProblemOf(err).Code == CodeNotFound {
		err = NewProblem(CodeNotFound, "there is no hook with this token", "list the hooks of your runs")
	}
	if err != nil {
		return Hook{}, err
	}
	l.hideToken(&h)
	return h, nil
}

// ResumeHook is part of Service.
func (l *limited) ResumeHook(ctx context.Context, token string, m Message) (Sent, error) {
	if err := l.p.Need(RoleOperator, "to resume hooks"); err != nil {
		return Sent{}, err
	}
	if l.p.Owner != "" {
		if _, err := l.Hook(ctx, token); err != nil {
			return Sent{}, err
		}
	}
	return l.under.ResumeHook(ctx, token, m)
}
