package jwtauth_test

import (
	"fmt"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/jwtauth"
)

func ExampleNew() {
	auth, err := jwtauth.New(jwtauth.Config{
		Issuer: "https://login.example.com", Audience: "flowgen", JWKS: "https://login.example.com/jwks.json",
		Roles: map[string]admin.Role{"oncall": admin.RoleOperator, "staff": admin.RoleViewer},
	})
	fmt.Println(auth != nil, err) // auth is used as api.Config.Auth

	_, err = jwtauth.New(jwtauth.Config{Issuer: "https://login.example.com", Audience: "flowgen", JWKS: "https://login.example.com/jwks.json", Algorithms: []string{"HS256"}})
	fmt.Println(err != nil)
	// Output:
	// true <nil>
	// true
}
