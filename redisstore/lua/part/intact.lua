-- What the script has found overwritten by somebody else, by its keys, and in the order in
-- which it was found: of each the key, a space, and the type that it has now.
local overwritten, findings = {}, {}

-- intact returns the reply to a command, or nil if its key has another type than it must:
-- then that is left out, so that one key keeps nothing but what it is about.
local function intact(command, key, ...)
  if overwritten[key] then
    return nil
  end
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  if not string.find(reply.err, '^WRONGTYPE') then
    return redis.call(command, key, ...) -- fails again, and ends the script
  end
  overwritten[key] = true
  findings[#findings + 1] = key .. ' ' .. redis.call('TYPE', key).ok
  return nil
end

-- told adds to an answer what was found.
local function told(answer)
  for _, finding in ipairs(findings) do
    answer[#answer + 1] = finding
  end
  return answer
end
