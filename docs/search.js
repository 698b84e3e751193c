// How the site's search ranks what it finds: an entry of the reference comes before the page that it is on.
var Scorer = {
  score: ([, , anchor, , score]) => score + (anchor ? 5 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
