-- grant gives a run to a session under a new fence and returns what the session
-- needs to know of it. The caller takes the run out of its former place, has taken
-- from the metadata what belongs to that, and puts the run among those of the session.
-- m holds the fields w, e, v, n, q, l, c and g of the run; mail is 1 if there is
-- something in its inbox, and closing is set if it told its senders to come later. A run of which there is nothing but a short first frame is
-- handed over as it is: nobody can have it in memory, and reading it would take the
-- session three commands.
local function grant(run, session, token, m, mail, closing)
  local meta, epoch = tag .. 'm:' .. run, m[2] + 1
  redis.call('HSET', meta, 'p', '2', 'o', session, 't', token, 'e', epoch)
  if closing then
    redis.call('HDEL', meta, 'z')
  end
  if mail == 1 then
    redis.call('HSETNX', tag .. 'a:' .. session, run, '0')
  end
  local answer = {run, m[1] or '', epoch, tonumber(m[3] or 0), tonumber(m[4]), tonumber(m[5]), m[6], m[7], mail}
  if m[4] == '1' and mail == 0 and (tonumber(m[8]) or 9e9) <= 8192 then
    local log = redis.call('XRANGE', tag .. 'l:' .. run, '-', '+')
    if #log == 1 then
      answer[10] = log[1][2][2]
    end
  end
  return answer
end

-- granted returns what grant has returned for a run that the session owns
-- already: the answer to the first try of a claim was lost.
local function granted(run, m)
  return {run, m[1] or '', tonumber(m[2]), tonumber(m[3] or 0), tonumber(m[4]), tonumber(m[5]), m[6], m[7],
    redis.call('EXISTS', tag .. 'i:' .. run)}
end
