package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS3_ATokenIsItsSecretUntilItExpires(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ada, secret := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleOperator, Owner: "team-a", Expires: now.Add(time.Hour)})
	bob, other := admin.NewToken(admin.Token{Name: "bob", Role: admin.RoleViewer, Expires: now.Add(2 * time.Hour)})
	if strings.Contains(ada.SHA256, secret) || secret == other {
		t.Errorf("the token %+v keeps its secret %q, or the other one has the same", ada, secret)
	}
	tokens, err := admin.NewTokens([]admin.Token{ada, bob}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	who := func(credential string) admin.Principal {
		p, err := tokens.Authenticate(t.Context(), credential)
		if problem := admin.ProblemOf(err); err != nil && problem.Code != admin.CodeUnauthenticated {
			t.Errorf("%q: %v", credential, err)
		}
		return p
	}
	if got, want := who(secret), (admin.Principal{Name: "ada", Role: admin.RoleOperator, Owner: "team-a"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := who(other); got.Name != "bob" {
		t.Errorf("got %+v, want bob", got)
	}
	for _, wrong := range []string{"", "fg_", secret + "x", secret[:len(secret)-1], strings.ToUpper(secret), ada.SHA256, secret + "\n"} {
		if got := who(wrong); got != (admin.Principal{}) {
			t.Errorf("%q is %+v, want nobody", wrong, got)
		}
	}
	now = now.Add(time.Hour)
	if got := who(secret); got != (admin.Principal{}) {
		t.Errorf("expired: got %+v, want nobody", got)
	}
	if got := who(other); got.Name != "bob" {
		t.Errorf("not expired: got %+v, want bob", got)
	}
}

func TestOPS3_TokensThatMakeNoSenseAreRefused(t *testing.T) {
	good, _ := admin.NewToken(admin.Token{Name: "ada", Role: admin.RoleAdmin, Expires: time.Now().Add(time.Hour)})
	change := func(f func(*admin.Token)) []admin.Token { bad := good; f(&bad); return []admin.Token{bad} }
	for what, tokens := range map[string][]admin.Token{
		"none":        nil,
		"no name":     change(func(b *admin.Token) { b.Name = "" }),
		"no hash":     change(func(b *admin.Token) { b.SHA256 = "" }),
		"half a hash": change(func(b *admin.Token) { b.SHA256 = b.SHA256[:32] }),
		"no hex":      change(func(b *admin.Token) { b.SHA256 = "x" + b.SHA256[1:] }),
		"no role":     change(func(b *admin.Token) { b.Role = "" }),
		"root":        change(func(b *admin.Token) { b.Role = "root" }),
		"no end":      change(func(b *admin.Token) { b.Expires = time.Time{} }),
		"twice":       {good, good},
	} {
		if _, err := admin.NewTokens(tokens, nil); err == nil || admin.ProblemOf(err).Code != admin.CodeInput {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for _, file := range []string{"", "{}", `[{"nam":"ada"}]`, `[] []`, `[{"name":"ada","expires":"tomorrow"}]`} {
		if _, err := admin.ReadTokens(strings.NewReader(file)); err == nil || admin.ProblemOf(err).Code != admin.CodeInput {
			t.Errorf("%q: got %v", file, err)
		}
	}
	all, err := admin.ReadTokens(strings.NewReader(`[{"name":"ada","sha256":"` + good.SHA256 + `","role":"viewer","owner":"x","expires":"2027-01-01T00:00:00Z"}]`))
	if err != nil || len(all) != 1 || all[0].Owner != "x" || all[0].Role != admin.RoleViewer || all[0].Expires.Year() != 2027 {
		t.Errorf("got %+v, %v", all, err)
	}
}
