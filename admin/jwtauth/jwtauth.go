// Package jwtauth authenticates JSON Web Tokens for the API and the console. Its [Authenticator]
// implements admin.Authenticator. It accepts tokens of one issuer for one audience during their
// validity. A key of the issuer's JWKS must have signed the token with one of the listed
// algorithms.
//
// The package is a separate module, so that programs that do not use it do not have its
// dependencies.
package jwtauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/flowgen/flowgen/admin"
)

// Config configures an Authenticator.
type Config struct {
	Issuer   string // required value of the claim iss
	Audience string // required element of the claim aud
	JWKS     string // URL of the keys; it must use https or refer to this machine
	// Algorithms lists the accepted algorithms; empty means RS256 and ES256. Algorithms with a
	// shared secret and the algorithm "none" are refused, because a public key must not be used as
	// a secret.
	Algorithms []string
	// RolesClaim is the name of the claim that contains the roles, as a text or a list; empty means
	// roles. Dots separate the names of nested objects, as in realm_access.roles.
	RolesClaim string
	// Roles maps values of the roles claim to roles; nil means that the values are the names of
	// roles. The principal gets the highest of its roles. Values without a role are ignored. A
	// principal without a role has no rights.
	Roles map[string]admin.Role
	// OwnerClaim is the name of the claim that contains the owner of the principal; empty means
	// that no principal has an owner. A token without the claim is refused, except for the roles in
	// WithoutOwner.
	OwnerClaim string
	// WithoutOwner lists the roles whose tokens may lack the owner claim. Such principals are not
	// restricted to an owner.
	WithoutOwner []admin.Role
	// Skew is the maximum accepted difference from the clock of the issuer; 0 means one minute.
	Skew time.Duration
	// Refresh is the age at which the keys are requested again; 0 means 10 minutes. Keep is the age
	// up to which the keys are used if such a request fails; 0 means one hour. A token with an
	// unknown key causes an additional request, but at most one every 10 s.
	Refresh, Keep time.Duration
	// Else authenticates credentials that are not JSON Web Tokens; nil means that such credentials
	// are invalid.
	Else admin.Authenticator
	// Client requests the keys; nil means a separate client with default settings. Each request
	// also has a time limit of 10 s.
	Client *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// asymmetric lists the algorithms with public keys.
var asymmetric = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// Authenticator is an admin.Authenticator for the tokens of an issuer.
type Authenticator struct {
	cfg      Config
	verifier *oidc.IDTokenVerifier
}

var _ admin.Authenticator = (*Authenticator)(nil)

// New returns an authenticator. It does not request the keys, so that a server can start while the
// issuer is unavailable.
func New(cfg Config) (*Authenticator, error) {
	bad := func(what, fix string) error { return &admin.InputError{What: what, Fix: fix} }
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = []string{oidc.RS256, oidc.ES256}
	}
	for _, alg := range cfg.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			return nil, bad(fmt.Sprintf("tokens signed by %q could be forged by any client", alg), "use some of "+strings.Join(asymmetric, ", "))
		}
	}
	for _, role := range cfg.Roles {
		if !slices.Contains(admin.Roles(), role) {
			return nil, bad(fmt.Sprintf("there is no role %q", role), fmt.Sprintf("use one of %v", admin.Roles()))
		}
	}
	for _, role := range cfg.WithoutOwner {
		if cfg.OwnerClaim == "" || !slices.Contains(admin.Roles(), role) {
			return nil, bad(fmt.Sprintf("tokens of role %q need no owner", role), fmt.Sprintf("name the claim that has the owner of the others, and one of %v", admin.Roles()))
		}
	}
	keys, err := url.Parse(cfg.JWKS)
	switch {
	case cfg.Issuer == "":
		return nil, bad("the issuer of accepted tokens is missing", "give the issuer: the value of iss in the tokens")
	case cfg.Audience == "":
		return nil, bad("tokens for any audience would be accepted", "give the audience: the value of aud in the tokens")
	case err != nil || keys.Host == "" || keys.Scheme != "https" && (keys.Scheme != "http" || !local(keys.Hostname())):
		return nil, bad("the keys would be sent unencrypted", "give an https URL of the JWKS")
	}
	cfg.RolesClaim = cmp.Or(cfg.RolesClaim, "roles")
	cfg.Skew, cfg.Refresh, cfg.Keep = cmp.Or(cfg.Skew, time.Minute), cmp.Or(cfg.Refresh, 10*time.Minute), cmp.Or(cfg.Keep, time.Hour)
	if cfg.Client == nil {
		cfg.Client = &http.Client{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Authenticator{cfg: cfg, verifier: oidc.NewVerifier(cfg.Issuer, newKeys(&cfg), &oidc.Config{
		ClientID: cfg.Audience, SupportedSigningAlgs: cfg.Algorithms, Now: cfg.Now,
		SkipExpiryCheck: true, // the check of the library permits no skew; see checkTimes
	})}, nil
}

func local(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// maxToken is the maximum length of a token in bytes.
const maxToken = 16 << 10

// Authenticate implements admin.Authenticator. Its errors describe the problem with a token, but do
// not contain the secret parts of the token.
func (a *Authenticator) Authenticate(ctx context.Context, credential string) (admin.Principal, error) {
	refuse := func(what string) (admin.Principal, error) {
		return admin.Principal{}, &admin.UnauthenticatedError{What: what}
	}
	if strings.Count(credential, ".") != 2 {
		if a.cfg.Else != nil {
			return a.cfg.Else.Authenticate(ctx, credential)
		}
		return refuse("the token is not a JWT")
	}
	if len(credential) > maxToken {
		return refuse("the token is too long")
	}
	ctx, away := withAway(ctx)
	token, err := a.verifier.Verify(ctx, credential)
	if err := away(); err != nil {
		return admin.Principal{}, err
	}
	if err != nil {
		return refuse("the token is not accepted: " + err.Error())
	}
	var claims map[string]any
	var times struct{ Exp, Nbf, Iat *json.Number }
	if token.Claims(&claims) != nil || token.Claims(&times) != nil {
		return refuse("the token has no claims")
	}
	if err := a.checkTimes(times.Exp, times.Nbf, times.Iat); err != nil {
		return admin.Principal{}, err
	}
	p := admin.Principal{Name: token.Subject, Role: a.role(claim(claims, a.cfg.RolesClaim))}
	if p.Name == "" {
		return refuse("the token has no subject")
	}
	if a.cfg.OwnerClaim != "" {
		given := claim(claims, a.cfg.OwnerClaim)
		if p.Owner, _ = given.(string); p.Owner == "" && (given != nil || !slices.Contains(a.cfg.WithoutOwner, p.Role)) {
			return refuse("the token has no owner in " + a.cfg.OwnerClaim)
		}
	}
	return p, nil
}

// checkTimes returns an error if the token is not valid at present. It tolerates the configured
// difference between clocks.
func (a *Authenticator) checkTimes(exp, nbf, iat *json.Number) error {
	refuse := func(what string) error { return &admin.UnauthenticatedError{What: what} }
	now := a.cfg.Now()
	if exp == nil {
		return refuse("the token never expires")
	}
	for what, at := range map[string]*json.Number{"exp": exp, "nbf": nbf, "iat": iat} {
		if at == nil {
			continue
		}
		seconds, err := at.Float64()
		if err != nil || seconds < 0 || seconds > 1e11 {
			return refuse("the token has no time in " + what)
		}
		t := time.UnixMilli(int64(seconds * 1000))
		if what == "exp" && !now.Before(t.Add(a.cfg.Skew)) {
			return refuse("the token has expired")
		}
		if what != "exp" && now.Before(t.Add(-a.cfg.Skew)) {
			return refuse("the token is not valid yet")
		}
	}
	return nil
}

// claim returns the value of a claim, given its name or its path.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	outer, inner, ok := strings.Cut(name, ".")
	within, isObject := claims[outer].(map[string]any)
	if !ok || !isObject {
		return nil
	}
	return claim(within, inner)
}

// role returns the highest role among the values of the roles claim.
func (a *Authenticator) role(v any) (highest admin.Role) {
	values, many := v.([]any)
	if !many {
		values = []any{v}
	}
	for _, v := range values {
		name, _ := v.(string)
		role := admin.Role(name)
		if a.cfg.Roles != nil {
			role = a.cfg.Roles[name]
		}
		if slices.Contains(admin.Roles(), role) && (highest == "" || role.Allows(highest)) {
			highest = role
		}
	}
	return highest
}
