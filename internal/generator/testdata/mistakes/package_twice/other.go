//flow:package name=b register=Setup
package package_twice
